"""The vector side of a weight format in C++: which pieces of an instruction set read its blocks."""

from __future__ import annotations

from dataclasses import dataclass

from strata_gen.model.format import Activation, Format
from strata_gen.model.integers import Integers
from strata_gen.model.vectors import Halves, Mask, Part, Run, VectorPlan, Word, plan_vectors
from strata_gen.views.format_scalar import grid_name


@dataclass(frozen=True, slots=True)
class CppVectors:
    """What a kernel asks a format for. All texts are C++ expressions.

    `steps[j]` reads elements 32 j to 32 j + 31 of `at`; `grid` makes what they share, or is empty. `scales` and
    `minimums` read one row's `block`, as eight bytes; they are empty where a format has none.
    """

    steps: tuple[str, ...]
    grid: str
    constants: tuple[str, ...]
    scales: str
    minimums: str


def _piece(part: Part) -> str:
    match part:
        case Run(byte, shift, bits, to):
            load = f"Isa::load32(at, {byte})"
            return load if bits == 8 else f"Isa::template pick<{shift}, {bits}, {to}>({load})"
        case Halves(byte, (low, high), bits, to):
            return f"Isa::template pick_halves<{low}, {high}, {bits}, {to}>(Isa::load16(at, {byte}))"
        case Mask(byte, to):
            return f"Isa::template where<{1 << to}>(Isa::bits(at, {byte}))"


def _plus(added: int, text: str) -> str:
    return f"Isa::template add<{added}>({text})" if added else text


def _step(quants: Integers, plan: VectorPlan, index: int) -> str:
    if plan.grid is not None:
        text = f"grid.template quants<{index}>()"
    else:
        first, *others = map(_piece, plan.steps[index])
        text = first
        for piece in others:
            text = f"Isa::join({text}, {piece})"
        if quants.table:
            text = f"Isa::look_up(table(), {text})"
    if not plan.signs:
        return _plus(quants.offset + (plan.bias or 0), text)
    negated = f"Isa::negate({_plus(quants.offset, text)}, Isa::bits(at, {plan.signs[index]}))"
    return _plus(plan.bias or 0, negated)


def _mask(bits: int, count: int) -> str:
    digits = 2 * count
    return f"0x{int.from_bytes(bytes([bits] * count), 'little'):0{digits}x}u" + ("ll" if count > 4 else "")


def _word(word: Word) -> str:
    """One plane of eight or four bytes, placed where its elements are."""
    if word.step != 8:
        load = f"word::load{word.count * word.step}(block + {word.byte})"
        text = f"word::deposit<{word.step}, {word.count}>({load})"
        text = f"{text} << {word.to}" if word.to else text
    else:
        text = f"word::load{word.count * 8}(block + {word.byte})"
        moved = word.shift - word.to
        if moved:
            text = f"{text} {'>>' if moved > 0 else '<<'} {abs(moved)}"
        if word.bits != 8:
            left = f"({text})" if moved else text
            text = f"({left} & {_mask(((1 << word.bits) - 1) << word.to, word.count)})"
    return f"({text}) << {8 * word.first}" if word.first else text


def _words(words: tuple[Word, ...], integers: Integers | None) -> str:
    if integers is None or integers.count != 8:
        return ""
    text = " | ".join(f"({_word(word)})" if len(words) > 1 else _word(word) for word in words)
    if integers.times != 1:
        text = f"({text}) * {integers.times}"
    if integers.offset > 0:
        text = f"({text}) + {_mask(integers.offset, 8)}"
    return text


def _constants(spec: Format, plan: VectorPlan) -> tuple[str, ...]:
    lines = [f"static constexpr std::size_t kScale = {spec.decode.scale.offset};"] if spec.decode.scale else []
    if spec.activation is not Activation.INT8_256:
        return tuple(lines)
    scales = spec.decode.scales
    assert scales is not None
    lines += [
        f"static constexpr bool kSigned = {'true' if plan.bias is None else 'false'};",
        f"static constexpr int kBias = {plan.bias or 0};",
        f"static constexpr std::size_t kScales = {scales.count};",
    ]
    if scales.count == 8:
        lines.append(f"static constexpr int kScaleOffset = {min(scales.offset, 0)};")
    else:
        lines.append(f"static constexpr std::size_t kScaleBytes = {plan.scales[0].byte};")
    if spec.decode.minimum is not None:
        lines.append(f"static constexpr std::size_t kMinimum = {spec.decode.minimum.offset};")
    return tuple(lines)


def cpp_vectors(spec: Format) -> CppVectors | None:
    """Return what kernels need of a format of integers; None for plain floats."""
    quants = spec.decode.quants
    if quants is None:
        return None
    plan = plan_vectors(spec)
    grid = plan.grid
    return CppVectors(
        steps=tuple(_step(quants, plan, index) for index in range(spec.elements // 32)),
        grid=f"at, {grid_name(spec)}, {grid.low_byte}, {grid.high_byte}" if grid is not None else "",
        constants=_constants(spec, plan),
        scales=_words(plan.scales, spec.decode.scales),
        minimums=_words(plan.minimums, spec.decode.minimums),
    )
