"""Compute layouts of formats: which instruction sets may have one, what stands where, what cannot be arranged."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from strata_gen.diagnostics import SpecErrors
from strata_gen.model.format import INTERLEAVED_ROWS, Format
from strata_gen.model.interleaved import SegmentKind, plan_interleaved
from strata_gen.paths import runtime_root, specs_root
from strata_gen.specs import load_specs

SpecRoot = Callable[..., Path]
CPU = (specs_root() / "targets" / "cpu.yaml").read_bytes()


def text_of(name: str) -> str:
    return (specs_root() / "formats" / f"{name}.yaml").read_text(encoding="utf-8")


def refused(spec_root: SpecRoot, text: str) -> str:
    root = spec_root({"formats/one.yaml": text.encode(), "targets/cpu.yaml": CPU})
    with pytest.raises(SpecErrors) as found:
        load_specs([root])
    return " ".join(f"{each.code} {each.message} {each.label}" for each in found.value.diagnostics)


def spec_of(name: str) -> Format:
    return next(spec for spec in load_specs((specs_root(),)).formats if spec.name == name)


def test_rows_side_by_side_are_those_of_the_operations() -> None:
    """An instruction set may have a layout exactly where its header has the operations, as many rows wide."""
    found = {
        header.stem: int(rows[1])
        for header in (runtime_root() / "include" / "strata" / "simd").glob("*.hpp")
        if (rows := re.search(r"kInterleaved = (\d+);", header.read_text(encoding="utf-8")))
    }
    assert found == INTERLEAVED_ROWS


def test_plain_floats_have_none(spec_root: SpecRoot) -> None:
    said = refused(spec_root, text_of("f16") + "layouts: [avx512vnni]\n")
    assert "F040 no kernel can be made: not interleaved: plain floats are read as they are stored" in said


def test_what_is_taken_off_is_a_power_of_two(spec_root: SpecRoot) -> None:
    said = refused(spec_root, text_of("q4_0").replace("offset: -8", "offset: -7").replace("encode:", "# encode:"))
    assert "the integers need 7 taken off, and 0 or a power of two up to 128 can be" in said


@pytest.mark.parametrize(
    ("name", "taken"),
    [("q8_0", 34), ("q4_0", 18), ("mxfp4", 17), ("q4_k", 148), ("q6_k", 210), ("iq4_xs", 138), ("iq3_s", 138)],
)
def test_bytes_of_a_row(name: str, taken: int) -> None:
    """Scales and minimums are whole bytes there, points of a grid four bits a value."""
    assert plan_interleaved(spec_of(name)).bytes == taken


def test_memory_is_read_from_front_to_back() -> None:
    """What one step reads from two fields is interwoven; what comes later stands further back."""
    segments = plan_interleaved(spec_of("q6_k")).segments
    assert [(each.byte, each.place, each.stride) for each in segments[:3]] == [(0, 18, 8), (128, 22, 8), (32, 82, 4)]
    assert [each.place for each in segments] == sorted(each.place for each in segments)


def test_steps_that_repeat_are_said_once() -> None:
    steps = {name: len(plan_interleaved(spec_of(name)).steps) for name in ("q4_k", "q6_k", "iq4_xs", "iq3_s", "q8_0")}
    assert steps == {"q4_k": 2, "q6_k": 4, "iq4_xs": 1, "iq3_s": 1, "q8_0": 1}


def test_single_bits_become_masks(spec_root: SpecRoot) -> None:
    five = text_of("q4_0").replace("bytes: 18", "bytes: 22").replace("offset: -8", "offset: -16")
    five = five.replace("offset: 2, count: 16", "offset: 6, count: 16").replace("encode:", "# encode:")
    five = five.replace("decode:", "  - {name: qh, type: u8, offset: 2, count: 4, help: Highest bits.}\ndecode:")
    plane = "      - {field: qs, bits: 4, strides: {half: 4, lane: 8}}\n"
    five = five.replace(plane, plane + "      - {field: qh, bits: 1, to: 4, strides: {half: 16, lane: 1}}\n")
    root = spec_root({"formats/one.yaml": five.encode(), "targets/cpu.yaml": CPU})
    plan = plan_interleaved(load_specs([root]).formats[0])
    assert [(each.kind, each.count) for each in plan.segments] == [(SegmentKind.BITS, 4), (SegmentKind.BYTES, 16)]
    assert (plan.bias, plan.bytes) == (16, 22)
