"""The compute layout of a format: blocks of several rows side by side, a few bytes of each row in turn.

For every row that takes part, a block holds its factors, its scales and minimums as whole bytes, and the fields of its
integers in units of four bytes: so one vector holds four neighbouring elements of as many rows as it has 32-bit lanes,
and one dot instruction with four bytes of the input adds to the sums of all of them. Every number of a row is
`unsigned byte - bias` there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from strata_gen.model.fields import FieldType
from strata_gen.model.format import Format
from strata_gen.model.integers import Integers
from strata_gen.model.vectors import CODES, LANES, Halves, Mask, NoVectorCode, Part, Run, plan_vectors

UNIT = 4
"""Bytes of one row that stand together: the elements of one 32-bit lane."""

_SIGN = 128  # what makes a signed byte unsigned


class SegmentKind(StrEnum):
    """What arranging does to the bytes of a segment."""

    BYTES = "bytes"  # as they are
    SIGNED = "signed"  # plus 128
    BITS = "bits"  # one bit an element: four of every row in turn
    CODES = "codes"  # points of a grid and their signs as one four-bit code an element


@dataclass(frozen=True, slots=True)
class Segment:
    """`count` bytes of one row that come from byte `byte` of the stored block on.

    `place` counts the row's bytes before them; units are `stride` bytes of the row apart, which is more than a unit
    where several segments are read together.
    """

    kind: SegmentKind
    byte: int
    count: int
    place: int
    stride: int = UNIT


Step = tuple[tuple[Part, Segment], ...]


@dataclass(frozen=True, slots=True)
class InterleavedPlan:
    """Where everything of one row is, in bytes of that row, and how its integers are read.

    `minimum` and `minimums` are None where there are none, `scales` where a block has one scale. `steps[j]` are the
    parts of elements 32 j to 32 j + 31, each with the segment that it reads; after all of them the next as many steps
    do the same `steps_bytes` further on. `codes` is what the four bits that they make stand for, `bias` added; empty
    where they are the number itself.
    """

    scale: int
    minimum: int | None
    scales: int | None
    minimums: int | None
    segments: tuple[Segment, ...]
    steps: tuple[Step, ...]
    steps_bytes: int
    codes: tuple[int, ...]
    bias: int
    bytes: int


def _refuse(message: str) -> NoVectorCode:
    return NoVectorCode("quants", f"not interleaved: {message}")


def _bias(quants: Integers) -> int:
    """Return what must be taken off the unsigned bytes that planes, or a table, make."""
    if quants.table or quants.grid is not None:
        return _SIGN
    signed = any(plane.is_signed for plane in quants.planes)
    bias = (_SIGN if signed else 0) - quants.offset
    if bias < 0 or bias > _SIGN or bias & (bias - 1):
        raise _refuse(f"the integers need {bias} taken off, and 0 or a power of two up to {_SIGN} can be")
    return bias


def _code_values(quants: Integers) -> tuple[int, ...]:
    """Return what the 16 codes stand for, plus 128; empty when integers are no codes."""
    grid = quants.grid
    if grid is not None:
        if len(grid.levels) > CODES // 2 or quants.signs is None:
            raise _refuse(f"a grid needs signs and at most {CODES // 2} levels")
        padded = (*grid.levels, *[0] * (CODES // 2 - len(grid.levels)))
        values = [level + quants.offset for level in padded]
        return tuple(value + _SIGN for value in (*values, *(-value for value in values)))
    if quants.table:
        return tuple(value + quants.offset + _SIGN for value in (*quants.table, *[0] * (CODES - len(quants.table))))
    return ()


class _Planner:
    """Places what kernels read in the order in which they first read it: memory is then read from front to back.

    The hardware fetches ahead for one such stream as fast as memory is, and for two that are a few hundred bytes apart
    at half of that; so what one step reads from two places of the stored block is interwoven.
    """

    def __init__(self, spec: Format) -> None:
        self.spec = spec
        self.end = 0
        self.segments: dict[tuple[SegmentKind, int, int], Segment] = {}

    def take(self, count: int) -> int:
        place, self.end = self.end, self.end + count
        return place

    def source(self, part: Part) -> tuple[SegmentKind, int, int]:
        """Say what a part reads: the kind of segment, its first byte in the stored block, how many bytes."""
        match part:
            case Run(byte):
                field = next(field for field in self.spec.fields if field.offset <= byte < field.end)
                return SegmentKind.SIGNED if field.type is FieldType.I8 else SegmentKind.BYTES, byte, LANES
            case Halves(byte):
                return SegmentKind.BYTES, byte, LANES // 2
            case Mask(byte):
                return SegmentKind.BITS, byte, LANES // 8

    def step(self, parts: tuple[Part, ...]) -> Step:
        """Place what `parts` are the first to read."""
        sources = [self.source(part) for part in parts]
        fresh = [source for source in dict.fromkeys(sources) if source not in self.segments]
        together = [source for source in fresh if source[0] is not SegmentKind.BITS]
        if len({count for _, _, count in together}) > 1:
            together = []
        for source in fresh:
            if source not in together:
                self.segments[source] = Segment(*source, self.take(source[2]))
        for index, source in enumerate(together):
            first = self.end + UNIT * index
            self.segments[source] = Segment(*source, first, UNIT * len(together))
        self.end += sum(count for _, _, count in together)
        return tuple((part, self.segments[source]) for part, source in zip(parts, sources, strict=True))


def _period(steps: tuple[Step, ...]) -> tuple[int, int]:
    """Return after how many steps the same happens again, and how many bytes of a row further on."""
    for period in range(1, len(steps)):
        apart = steps[period][0][1].place - steps[0][0][1].place
        if len(steps) % period == 0 and all(
            _reading(step, apart) == _reading(again, 0) for step, again in zip(steps, steps[period:], strict=False)
        ):
            return period, apart
    return len(steps), 0


def _reading(step: Step, apart: int) -> tuple[object, ...]:
    """Say what a step does `apart` bytes further on, wherever its bytes come from."""
    return tuple((replace(part, byte=0), segment.kind, segment.place + apart, segment.stride) for part, segment in step)


def plan_interleaved(spec: Format) -> InterleavedPlan:
    """Find the compute layout of a format. Raises `NoVectorCode` where there is none."""
    decode, quants = spec.decode, spec.decode.quants
    if quants is None or decode.scale is None:
        raise NoVectorCode("values", "not interleaved: plain floats are read as they are stored")
    vectors = plan_vectors(spec)
    planner = _Planner(spec)
    scale = planner.take(decode.scale.type.bytes)
    minimum = planner.take(decode.minimum.type.bytes) if decode.minimum is not None else None
    scales = planner.take(decode.scales.count) if decode.scales is not None else None
    minimums = planner.take(decode.minimums.count) if decode.minimums is not None else None
    if decode.scales is not None and not -128 <= decode.scales.range[0] <= decode.scales.range[1] <= 127:
        raise NoVectorCode("scales", "not interleaved: scales are signed bytes there")
    if quants.grid is not None:
        steps: tuple[Step, ...] = tuple(
            ((Halves(0, (0, 4), 4, 0), Segment(SegmentKind.CODES, 0, LANES // 2, planner.take(LANES // 2))),)
            for _ in range(0, spec.elements, LANES)
        )
        first = steps[0][0][1]
        segments: tuple[Segment, ...] = (Segment(SegmentKind.CODES, 0, spec.elements // 2, first.place),)
    elif quants.signs is None:
        steps = tuple(map(planner.step, vectors.steps))
        segments = tuple(planner.segments.values())
    else:
        raise _refuse("signs are for grids")
    period, steps_bytes = _period(steps)
    return InterleavedPlan(
        scale=scale,
        minimum=minimum,
        scales=scales,
        minimums=minimums,
        segments=segments,
        steps=steps[:period],
        steps_bytes=steps_bytes,
        codes=_code_values(quants),
        bias=_bias(quants),
        bytes=planner.end,
    )


def has_device_form(spec: Format) -> bool:
    """Say whether device kernels can read a format: floats as they are stored, anything else in its compute layout."""
    if spec.decode.values is not None:
        return True
    try:
        plan_interleaved(spec)
    except NoVectorCode:
        return False
    return True
