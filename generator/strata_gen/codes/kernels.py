"""Codes of kernels."""

from __future__ import annotations

from strata_gen.codes.explanation import Explanation

CODES: tuple[Explanation, ...] = (
    Explanation(
        "N020",
        "both built and refused",
        "A backend stands under 'backends' (the kernel is built for it) or under 'refused' (with the reason), not "
        "both.",
        "backends: [cpu]\nrefused: {cpu: not yet}",
        "backends: [cpu]",
    ),
    Explanation(
        "N021",
        "neither built nor refused",
        "No kernel is left out silently: a backend that it is not built for stands under 'refused' with the reason.",
        "backends: [cpu]",
        "backends: [cpu]\nrefused: {cuda: no device implementation yet, hip: no device implementation yet}",
    ),
    Explanation(
        "N022",
        "not a fact of a target",
        "'facts' lists the keys of target specs that the kernel's code depends on.",
        "facts: [wavesize]",
        "facts: [wave_size]",
    ),
    Explanation(
        "N023",
        "covered by itself",
        "A pruned variant is served by the kernels of another instruction set.",
        "prune: [{activation: float, isa: avx512, covered_by: avx512, reason: the same code}]",
        "prune: [{activation: float, isa: avx512vnni, covered_by: avx512, reason: the same code}]",
    ),
    Explanation(
        "N024",
        "a size that is cut twice",
        "The number of a device kernel's blocks is a product with one factor per size.",
        "launch: {threads: 256, blocks: [{over: hidden}, {over: hidden, each: 1024}]}",
        "launch: {threads: 256, blocks: [{over: tokens}, {over: hidden, each: 1024}]}",
    ),
    Explanation(
        "N026",
        "parts that do not fit",
        "'by' lists what tells the instances of a micro-kernel apart, and so the parts of their names: each once, "
        "'isa' always, 'tokens' with the largest number or the knob that says it, 'format' for a kernel that reads "
        "stored blocks (its activation form comes with it).",
        "variants: {by: [format, tokens, isa]}",
        "variants: {by: [format, tokens, isa], tokens: window.max_tokens}",
    ),
    Explanation(
        "N027",
        "variants of a kernel that is made of others",
        "A kernel with 'uses' runs instances of those micro-kernels, so it varies as they do.",
        "uses: [rows_dot]\nvariants: {by: [isa]}",
        "uses: [rows_dot]",
    ),
    Explanation(
        "N028",
        "a compute layout without formats",
        "'layout: compute' leaves out formats that have no such layout, so formats must be what tells instances apart.",
        "variants: {by: [isa]}\nlayout: compute",
        "variants: {by: [format, isa]}\nlayout: compute",
    ),
    Explanation(
        "N030",
        "a name that leads nowhere",
        "A kernel names a knob, an instruction set or a micro-kernel that no spec declares.",
        "knobs: [window.tokens]",
        "knobs: [window.max_tokens]",
    ),
    Explanation(
        "N031",
        "variants over a run-time knob",
        "Instances are compiled for every value up to the one of 'tokens', so it must be a whole number that affects "
        "compile.",
        "tokens: pool.threads",
        "tokens: window.max_tokens",
    ),
    Explanation(
        "N032",
        "no tolerance for a format's inputs",
        "A kernel that reads stored blocks has an instance for every format, and each is tested against the tolerance "
        "for the format's activation form.",
        "tolerance:\n  - {activation: float, bound: 1e-5}",
        "tolerance:\n  - {activation: float, bound: 1e-5}\n  - {activation: int8_256, bound: 4e-3}",
    ),
    Explanation(
        "N033",
        "two kernels of one name",
        "A kernel's name is the key under which tests, benchmarks and tables know it.",
        "# kernels/a.yaml\nname: linear\n# kernels/b.yaml\nname: linear",
        "# kernels/a.yaml\nname: linear\n# kernels/b.yaml\nname: linear_pair",
    ),
)
