"""Codes of hardware targets."""

from __future__ import annotations

from strata_gen.codes.explanation import Explanation

CODES: tuple[Explanation, ...] = (
    Explanation(
        "T020",
        "unknown source",
        "Every number of a target names where it was read, by a key of the file's 'sources'.",
        "wave_size: {value: 32, source: gide}",
        "wave_size: {value: 32, source: guide}",
    ),
    Explanation(
        "T021",
        "unknown base",
        "'extends' names a target, or an abstract base, of the same backend, in whatever file.",
        "extends: ampre",
        "extends: ampere",
    ),
    Explanation(
        "T022",
        "targets extend one another in a circle",
        "A target takes what it leaves out from its base, that one from its own base, and so on. The chain must end.",
        "- {name: sm_80, extends: sm_86}\n- {name: sm_86, extends: sm_80}",
        "- {name: ampere, abstract: true}\n- {name: sm_80, extends: ampere}\n- {name: sm_86, extends: ampere}",
    ),
    Explanation(
        "T023",
        "declared twice",
        "Two targets, or two levels, of one file have the same name, or two files have a base of that name.",
        "- name: sm_80\n- name: sm_80",
        "- name: sm_80\n- name: sm_86",
    ),
    Explanation(
        "T024",
        "a target leaves out what it must have",
        "Every target needs 'dot', 'mapped_stores' and 'compilers', a GPU also 'wave_size', a CPU 'levels'. They "
        "may come from a base.",
        "- name: gfx1100\n  compilers: [...]",
        "- name: gfx1100\n  extends: rdna3  # has dot, mapped_stores, wave_size\n  compilers: [...]",
    ),
    Explanation(
        "T025",
        "releases that end before they begin",
        "The first release of a range of compilers must not be newer than the last one.",
        "minimum: {value: 13.0, source: notes}\nmaximum: {value: 12.4, source: notes}",
        "minimum: {value: 12.4, source: notes}\nmaximum: {value: 13.0, source: notes}",
    ),
    Explanation(
        "T026",
        "not a wave size",
        "A wave (warp) has 32 or 64 lanes on every GPU that is supported.",
        "wave_size: {value: 23, source: guide}",
        "wave_size: {value: 32, source: guide}",
    ),
    Explanation(
        "T027",
        "runs on an unknown target",
        "'runs_on' names the targets whose devices can load a package built for this one; each is a target of the "
        "same backend.",
        "runs_on: [sm_99]",
        "runs_on: [sm_89]",
    ),
    Explanation(
        "T028",
        "unknown level",
        "A CPU target names levels of instructions that the file declares under 'levels'.",
        "levels: [x86-64-v33]",
        "levels: [x86-64-v3]",
    ),
    Explanation(
        "T029",
        "levels out of order",
        "The library tries its levels from the strongest down, so they stand weakest first, each once, in the "
        "order of the file's 'levels', and no two share a C++ namespace.",
        "levels: [x86-64-v4, x86-64-v3]",
        "levels: [x86-64-v3, x86-64-v4]",
    ),
    Explanation(
        "T030",
        "a key of another backend",
        "Numbers of a GPU mean nothing for a CPU, and levels of instructions nothing for a GPU.",
        "backend: cpu\ntargets:\n  - name: x86-64-v3\n    wave_size: {value: 32, source: guide}",
        "backend: cpu\ntargets:\n  - name: x86-64-v3",
    ),
    Explanation(
        "T031",
        "one name for two targets",
        "Names and aliases of all targets, over all backends, share one name space: a user who types one gets one "
        "target.",
        "- {name: sm_80, aliases: [ampere]}\n- {name: sm_86, aliases: [ampere]}",
        "- {name: sm_80, aliases: [ampere]}\n- {name: sm_86}",
    ),
    Explanation(
        "T032",
        "a default for an unknown knob",
        "'knobs' of a target gives knobs another default there; each is a knob that some spec declares.",
        "knobs: {pool.thread: 4}",
        "knobs: {pool.threads: 4}",
    ),
    Explanation(
        "T033",
        "a default that the knob cannot have",
        "The default that a target gives a knob must fit the knob's type, range and choices.",
        "knobs: {pool.threads: many}",
        "knobs: {pool.threads: 4}",
    ),
    Explanation(
        "T034",
        "denied releases of a compiler that never builds the target",
        "'denied' lists releases of the compilers that 'compilers' names, here or in a base; of another one it would "
        "deny nothing.",
        "compilers: [{family: nvcc, ...}]\ndenied: [{compiler: gcc, ...}]",
        "compilers: [{family: nvcc, ...}]\ndenied: [{compiler: nvcc, ...}]",
    ),
    Explanation(
        "T035",
        "not the name of an architecture",
        "The compiler's flag for the architecture is made from the target's name: sm_NN for CUDA, gfxNNN for HIP. "
        "Other names are aliases.",
        "- name: ampere",
        "- name: sm_86\n  aliases: [ampere]",
    ),
    Explanation(
        "T036",
        "the host of a GPU target is no CPU target",
        "A package for a GPU also has the micro-kernels of a CPU, for the machine that the GPU is in: 'host' names the "
        "target of backend cpu whose levels those are, but not 'native', which is another one on every machine.",
        "host: x86_64",
        "host: x86-64-v2",
    ),
)
