"""Formats beyond the project's own: what a spec may say compiles, and vector code reads it as scalar code does."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from strata_gen.paths import runtime_root, specs_root
from strata_gen.render import render
from strata_gen.resolve import find_target, make_plan
from strata_gen.specs import load_specs
from strata_gen.views import format_encoder, formats
from support.native_programs import Unit, compile_program, run_program

DIGITS = (("int", "class"), ("raw", "block"), ("i", "to"))
NAMES = ("activation", "info", "interleaved", "scale", "vectors")


def own(name: str, made: str) -> str:
    """The project's format `name` under another name, which no file format knows."""
    text = (specs_root() / "formats" / f"{name}.yaml").read_text(encoding="utf-8")
    return re.sub(r"^gguf:.*\n", "", text, flags=re.MULTILINE).replace(f"name: {name}\n", f"name: {made}\n")


def only_read(text: str) -> str:
    return re.sub(r"^encode:.*\n", "", text, flags=re.MULTILINE)


def grid_with_offset() -> str:
    return only_read(own("iq3_s", "grid_with_offset")).replace("  scale: d\n", "    offset: 2\n  scale: d\n")


def signs_with_offset() -> str:
    text = only_read(own("q4_0", "signs_with_offset")).replace("layouts: [avx512vnni]\n", "").replace("18}", "22}")
    text = text.replace("decode:", "  - {name: signs, type: u8, offset: 18, count: 4, help: Signs.}\ndecode:")
    return text.replace("offset: -8", "offset: -5\n    signs: {field: signs, strides: {half: 16, lane: 1}}")


def with_digits(slow: str, fast: str) -> str:
    return own("q4_0", f"digit_{slow}").replace("half:", f"{slow}:").replace("lane:", f"{fast}:")


def test_vector_code_reads_what_scalar_code_reads(tmp_path: Path) -> None:
    """Offsets stand before signs; digits and formats may have names of C++ and of the generated functions."""
    (tmp_path / "specs" / "formats").mkdir(parents=True)
    texts = [grid_with_offset(), signs_with_offset()]
    texts += [with_digits(*names) for names in DIGITS] + [own("q8_0", name) for name in NAMES]
    for number, text in enumerate(texts):
        (tmp_path / "specs" / "formats" / f"{number}.yaml").write_text(text, encoding="utf-8")
    specs = replace(load_specs((specs_root(),)), formats=load_specs((tmp_path / "specs",)).formats)
    plan = make_plan(specs, find_target(specs, "cpu", "native"), {})
    for file in render(plan, (*formats.EMITTERS, *format_encoder.EMITTERS)):
        path = tmp_path / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(file.text, encoding="utf-8")
    units = (
        Unit(Path(__file__).parent / "traits.cpp"),
        Unit(tmp_path / "src" / "gen" / "formats.cpp"),
        Unit(runtime_root() / "src" / "grid_quants.cpp"),
    )
    program = compile_program("traits", units, (tmp_path / "include", runtime_root() / "include"))
    names = ["grid_with_offset", "signs_with_offset", *(f"digit_{slow}" for slow, _ in DIGITS), *NAMES]
    assert sorted(run_program(program).splitlines()) == sorted(f"{name} 0" for name in names)
