"""The compute layout of a weight format in C++: where everything is, how it is filled and how integers are read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from strata_gen.model.format import Format
from strata_gen.model.interleaved import (
    UNIT,
    InterleavedPlan,
    Segment,
    SegmentKind,
    has_device_form,
    plan_interleaved,
)
from strata_gen.model.vectors import Halves, Mask, Part, Run, plan_vectors
from strata_gen.views.format_scalar import grid_name


@dataclass(frozen=True, slots=True)
class CppInterleaved:
    """What kernels and the code that arranges ask for; `Rows` rows stand side by side.

    `constants` and `fill` (statements that arrange the integers of `block[0..Rows)` at `to`) are lines. `steps[j]` is
    an expression for four of the elements 32 j to 32 j + 31 of every row, those of `Lane + lane`; further elements are
    read in the same steps from further on. `codes` is what the bits are looked up in, or empty.
    """

    constants: tuple[str, ...]
    codes: str
    fill: tuple[str, ...]
    steps: tuple[str, ...]


def _place(byte: int) -> str:
    return f"Rows * {byte}"


def _piece(part: Part, segment: Segment) -> str:
    match part:
        case Run(_, shift, bits, to):
            load = f"Isa::load_bytes(at + Rows * ({segment.place} + {segment.stride} * (Lane + lane)))"
            return load if bits == 8 else f"Isa::template pick<{shift}, {bits}, {to}>({load})"
        case Halves(_, (low, high), bits, to):
            load = f"Isa::load_bytes(at + Rows * ({segment.place} + {segment.stride} * (Lane % 4 + lane)))"
            return f"Isa::template pick<(Lane < 4 ? {low} : {high}), {bits}, {to}>({load})"
        case Mask(_, to):
            load = f"Isa::load_mask(at + Rows * {segment.place} + Rows / 2 * (Lane + lane))"
            return f"Isa::template where<{1 << to}>({load})"


def _step(parts: tuple[tuple[Part, Segment], ...], plan: InterleavedPlan) -> str:
    first, *others = (_piece(part, segment) for part, segment in parts)
    text = first
    for piece in others:
        text = f"Isa::join({text}, {piece})"
    return f"Isa::look_up(codes(), {text})" if plan.codes else text


def _merged(segments: tuple[Segment, ...]) -> Iterator[Segment]:
    """Join segments that follow one another in the file as they do in memory."""
    last: Segment | None = None
    for segment in segments:
        follows = last is not None and segment == replace(
            segment, kind=last.kind, byte=last.byte + last.count, place=last.place + last.count, stride=UNIT
        )
        if last is not None and not follows:
            yield last
        last = segment if last is None or not follows else replace(last, count=last.count + segment.count)
    if last is not None:
        yield last


def _fill(spec: Format, segment: Segment) -> str:
    to = f"to + {_place(segment.place)}"
    match segment.kind:
        case SegmentKind.BYTES:
            return f"interleave_bytes<Rows, {segment.count}, {segment.stride}>(block, {segment.byte}, {to});"
        case SegmentKind.SIGNED:
            return f"interleave_bytes<Rows, {segment.count}, {segment.stride}, 0x80>(block, {segment.byte}, {to});"
        case SegmentKind.BITS:
            return f"interleave_bits<Rows, {segment.count}>(block, {segment.byte}, {to});"
        case SegmentKind.CODES:
            plan = plan_vectors(spec)
            assert plan.grid is not None
            places = f"{plan.grid.low_byte}, {plan.grid.high_byte}, {plan.signs[0]}"
            return f"interleave_codes<Rows, {spec.elements}>({grid_name(spec)}, block, {places}, {to});"


def _constants(spec: Format, plan: InterleavedPlan) -> tuple[str, ...]:
    places = {"kScale": plan.scale, "kMinimum": plan.minimum, "kScales": plan.scales, "kMinimums": plan.minimums}
    lines = [
        f"static constexpr std::size_t {name} = {_place(place)};" for name, place in places.items() if place is not None
    ]
    if spec.decode.scales is not None:
        lines.append(f"static constexpr std::size_t kParts = {spec.decode.scales.count};")
    return (
        *lines,
        f"static constexpr std::size_t kSteps = {len(plan.steps)};  // which repeat",
        f"static constexpr std::size_t kStepsBytes = {_place(plan.steps_bytes)};  // further on",
        f"static constexpr std::size_t kBytes = {_place(plan.bytes)};",
        f"static constexpr int kBias = {plan.bias};",
    )


def cpp_interleaved(spec: Format) -> CppInterleaved | None:
    """Return the compute layout of a format, which device kernels read, and instruction sets that its spec names.

    None when it has none.
    """
    if spec.decode.values is not None or not has_device_form(spec):
        return None
    plan = plan_interleaved(spec)
    codes = ", ".join(str(value - 256 if value > 127 else value) for value in plan.codes)
    return CppInterleaved(
        constants=_constants(spec, plan),
        codes=codes,
        fill=tuple(_fill(spec, segment) for segment in _merged(plan.segments)),
        steps=tuple(_step(step, plan) for step in plan.steps),
    )
