"""`strata-gen describe`: what a name means, in words that can be followed to their source."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from strata_gen.cli.main import group
from strata_gen.describe import Describer, Description
from strata_gen.errors import GeneratorError
from strata_gen.model.kernel_name import Grammar
from strata_gen.model.specset import SpecSet
from strata_gen.paths import project_root


def run(*words: str) -> Result:
    return CliRunner().invoke(group, ["describe", *words])


def text(*words: str) -> str:
    result = run(*words)
    assert result.exit_code == 0, result.output
    return result.output


def facts(name: str) -> dict[str, Any]:
    return {fact["key"]: fact for fact in json.loads(text(name, "--json"))["facts"]}


def test_every_part_of_a_name_is_explained() -> None:
    said = facts("rows_dot.q4_k.int8_256.t5.avx512vnni")
    assert said["kernel"]["text"][0].startswith("rows_dot: Dot products of weight rows")
    assert "blocks of 256 values in 144 bytes, 4.5 bits a value; takes int8_256 inputs" in said["format"]["text"]
    assert said["activation"]["text"] == ["int8_256: blocks of 256 signed bytes with one float scale, and their sums"]
    assert said["tokens"]["text"][1] == "1 to 8, the build-time knob window.max_tokens"
    assert said["isa"]["text"][0] == "avx512vnni: micro-kernel level x86-64-v4-vnni and x86-64-v4-amx"
    assert said["built for"]["text"][0].startswith("cpu x86-64-v2, cpu x86-64-v3, cpu x86-64-v4, ")
    assert said["body"]["text"] == ["runtime/include/strata/kernels/rows_dot.hpp"]
    assert said["symbol"]["text"] == ["strata::levels::avx512vnni::rows_dot_q4_k_int8_256"]
    assert "out: f32 [tokens][rows], write, owned by the caller" in said["parameters"]["text"]
    assert said["knobs"]["text"][0].startswith("window.max_tokens: Most tokens")
    assert said["target facts"]["text"] == ["levels"]
    assert said["tolerance"]["text"][0].startswith("within 0.004 of the sum over 256-wide blocks")
    assert said["compared with"]["text"][1] == "tests/support/references.py::rows_dot"
    test = "tests/kernels/test_parity.py::test_rows_dot[rows_dot.q4_k.int8_256.t5.avx512vnni]"
    assert said["parity test"]["text"] == [f'python -m pytest "{test}"']
    name = "rows_dot.q4_k.int8_256.t5.avx512vnni"
    assert said["benchmark"]["text"] == [f"python bench/kernels.py --kernel {name}"]


def test_the_text_holds_the_same(specs: SpecSet) -> None:
    name = "moe_experts.q8_0.int8.avx2"
    shown = [" ".join(line.split()) for line in text(name).splitlines()]
    assert shown[0] == f"{name}: built"
    for key, fact in facts(name).items():
        assert any(line.startswith(f"{key} {fact['text'][0]}") for line in shown)
        assert [line for line in fact["text"][1:] if line not in shown] == []
        assert not fact["where"] or fact["where"] in shown


def test_every_instance_can_be_described_and_what_it_names_is_there(specs: SpecSet) -> None:
    describer = Describer(specs)
    for name in Grammar(specs).all_names():
        found = describer.describe(str(name))
        assert isinstance(found, Description)
        assert all(fact.lines and all(fact.lines) for fact in found.facts)
        (body,) = (fact.lines[0] for fact in found.facts if fact.key == "body")
        assert (project_root() / body).is_file()


@pytest.mark.parametrize("name", ["rows_dot.iq3_s.int8_256.t1.avx2", "linear.f32.float.generic", "combine", "rows_dot"])
def test_places_lead_to_the_spec_that_says_it(name: str) -> None:
    for fact in facts(name).values():
        if fact["where"]:
            file, line = fact["where"].split(":")
            written = (project_root() / file).read_text(encoding="utf-8").splitlines()[int(line) - 1]
            word = re.match(r"[\w.-]+", fact["text"][0])
            assert "name: " in written
            assert word is not None
            if fact["key"] in ("kernel", "format"):
                assert written == f"name: {word[0]}"


def test_a_pruned_instance_says_why_and_what_serves() -> None:
    name = "rows_dot.f32.float.t3.avx512vnni"
    assert text(name).startswith(f"{name}: built, except beside avx512\n")
    said = facts(name)
    assert said["left out for"]["text"][0] == "cpu x86-64-v2, cpu x86-64-v3, cpu x86-64-v4"
    assert said["left out for"]["text"][1] == (
        "rows_dot.f32.float.t3.avx512 serves: VNNI multiplies bytes only, so the float kernels of the level below are "
        "the same code"
    )
    assert said["built for"]["text"] == [
        "cpu x86-64-v4-vnni, cpu x86-64-v4-amx; cpu native on a CPU whose best level it is"
    ]


@pytest.mark.parametrize("name", ["rows_dot.q4_k.int8_256.t5.gfx1151", "checksum.gfx1151"])
def test_a_refused_instance_says_why(name: str) -> None:
    assert text(name).startswith(f"{name}: refused: the pool runs it, on the CPU beside the GPU\n")
    said = facts(name)
    assert said["target"]["text"][0].startswith("hip gfx1151: ")
    assert said["refused"]["text"] == ["the pool runs it, on the CPU beside the GPU"]
    assert "benchmark" not in said


def test_a_kernel_made_of_others_says_of_which_instances() -> None:
    assert facts("linear.q8_0.int8.avx2")["made of"]["text"] == [
        "rows_dot.q8_0.int8.*.avx2",
        "quantize_input.int8.avx2",
    ]
    assert facts("linear.q8_0.int8.avx512vnni")["made of"]["text"] == [
        "rows_dot.q8_0.int8.*.avx512vnni",
        "interleaved_dot.q8_0.int8.*.avx512vnni",
        "interleaved_dot_ahead.q8_0.int8.*.avx512vnni",
        "quantize_input.int8.avx512vnni",
    ]
    assert facts("linear.f32.float.avx2")["made of"]["text"] == ["rows_dot.f32.float.*.avx2"]


def test_a_layout_that_a_format_has_for_some_instruction_sets(specs: SpecSet) -> None:
    said = facts("interleaved_dot.q8_0.int8.t1.avx512vnni")
    assert said["symbol"]["text"] == ["strata::levels::avx512vnni::interleaved_q8_0"]
    with pytest.raises(GeneratorError, match=r"q8_0 has no compute layout for avx2"):
        Grammar(specs).parse("interleaved_dot.q8_0.int8.t1.avx2")


def test_a_kernel_says_how_its_instances_are_named(specs: SpecSet) -> None:
    said = facts("rows_dot")
    count = len(specs.formats) * 4 * 8  # instruction sets, and numbers of tokens
    assert said["instances"]["text"][0] == f"{count}, named rows_dot.FORMAT.ACTIVATION.TOKENS.ISA"
    assert said["left out"]["text"][0] == "float inputs for avx512vnni, where avx512 is built too"
    assert len(said["tolerance"]["text"]) == 3


def test_without_a_name_every_instance_is_listed(specs: SpecSet) -> None:
    listed = [line.split()[0] for line in text().splitlines()]
    assert listed == [str(name) for name in Grammar(specs).all_names()]
    rows = json.loads(text("--json"))
    assert [row["name"] for row in rows] == listed
    assert {row["status"] for row in rows} == {"built", "built, except beside avx512"}


@pytest.mark.parametrize(
    ("pattern", "regex"),
    [
        ("rows_dot.q4_k", r"rows_dot\.q4_k\..*"),
        ("rows_dot.q4_k.int8_256.t2", r"rows_dot\.q4_k\.int8_256\.t2\..*"),
        ("*.avx2", r".*\.avx2"),
        ("linear.*.int8.*", r"linear\.[^.]*\.int8\..*"),
        ("combine*", "combine"),
    ],
)
def test_the_begin_of_a_name_and_a_pattern_list_what_they_stand_for(specs: SpecSet, pattern: str, regex: str) -> None:
    expected = [str(name) for name in Grammar(specs).all_names() if re.fullmatch(regex, str(name))]
    assert expected
    assert [line.split()[0] for line in text(pattern).splitlines()] == expected


@pytest.mark.parametrize(
    ("name", "status", "line"),
    [
        ("q4_k", "format", "blocks of 256 values in 144 bytes, 4.5 bits a value; takes int8_256 inputs"),
        ("avx2", "instruction set", "avx2: micro-kernel level x86-64-v3"),
        ("sm_90", "target", "cuda sm_90: H100, H200, GH200"),
        ("pool.threads", "knob", "STRATA_POOL_THREADS, --pool-threads; default 0; affects launch"),
    ],
)
def test_what_kernels_are_made_of_is_described_too(name: str, status: str, line: str) -> None:
    shown = text(name)
    assert shown.startswith(f"{name}: {status}\n")
    assert line in shown


@pytest.mark.parametrize(
    ("name", "message", "fix"),
    [
        ("rows_dt", "nothing is named 'rows_dt'", "did you mean 'rows_dot'?"),
        ("q4k", "nothing is named 'q4k'", "did you mean 'q4_k'?"),
        ("pool.thread", "nothing is named 'pool.thread'", "did you mean 'pool.threads'?"),
        ("xyzzy", "nothing is named 'xyzzy'", "strata-gen describe lists every instance"),
        ("rows_dot.*.sse9", "no kernel instance matches 'rows_dot.*.sse9'", "strata-gen describe lists them"),
        (
            "rows_dot.q4_kk.int8_256.t5.avx2",
            "'rows_dot.q4_kk.int8_256.t5.avx2' names no kernel: no format 'q4_kk' (did you mean 'q4_k'?)",
            "strata-gen describe 'rows_dot.*' lists the names",
        ),
    ],
)
def test_what_means_nothing_is_one_clear_error(name: str, message: str, fix: str) -> None:
    result = run(name)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"error: {message}\n  fix: {fix}\n"


def test_specs_of_ones_own_are_described(specs: SpecSet, tmp_path: Path) -> None:
    (tmp_path / "kernels").mkdir()
    own = (project_root() / "specs/kernels/combine.yaml").read_text(encoding="utf-8")
    (tmp_path / "kernels/mine.yaml").write_text(own.replace("name: combine", "name: mine"))
    assert text("--specs-alone", "--specs", str(tmp_path)) == "mine  built\n"
    assert text("mine", "--specs-alone", "--specs", str(tmp_path)).startswith("mine: built\n")


def test_a_device_that_builds_a_kernel_does_not_refuse_it(specs: SpecSet) -> None:
    kernels = tuple(replace(kernel, refused=()) if kernel.name == "combine" else kernel for kernel in specs.kernels)
    found = Describer(replace(specs, kernels=kernels)).describe("combine.sm_90")
    assert isinstance(found, Description)
    assert found.status == "built"
    assert [fact.lines for fact in found.facts if fact.key == "built for"] == [("cuda sm_90",)]
