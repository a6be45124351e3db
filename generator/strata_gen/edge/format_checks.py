"""What a format as a whole can be wrong about: bits that nothing reads, encoders and kernels that cannot be made."""

from __future__ import annotations

from strata_gen.diagnostics import did_you_mean
from strata_gen.edge.findings import Findings
from strata_gen.model.fields import Field, FieldType
from strata_gen.model.format import INTERLEAVED_ROWS, Activation, Decode, Encode, EncodeRule, Format
from strata_gen.model.integers import Integers
from strata_gen.model.interleaved import plan_interleaved
from strata_gen.model.vectors import NoVectorCode, plan_vectors

_FACTOR_TYPES = (FieldType.F16, FieldType.E8M0_HALF)
_VALUE_TYPES = (FieldType.F32, FieldType.F16, FieldType.BF16)


def _readings(spec: Format) -> dict[str, list[int]]:
    """For every field of integers, how often each of its bits is read."""
    counts = {field.name: [0] * (field.count * 8) for field in spec.fields if not field.type.is_float}
    for _, integers in spec.decode.integers:
        # The last digit of a grid picks inside a point and reads nothing new.
        step = integers.grid.corners if integers.grid is not None else 1
        for element in range(0, integers.count, step):
            for plane, first in integers.bits_of(element):
                for bit in range(first, first + plane.bits):
                    counts[plane.field.name][bit] += 1
        for element in range(integers.count if integers.signs is not None else 0):
            assert integers.signs is not None
            first_sign = integers.signs.bit(integers.digits_of(element))
            assert first_sign is not None
            counts[integers.signs.field.name][first_sign] += 1
    return counts


def check_bits(spec: Format, findings: Findings) -> None:
    """Every field must be used, and every bit of a field of integers exactly once."""
    counts = _readings(spec)
    floats = {field.name for field in (*spec.decode.factors, spec.decode.values) if field is not None}
    for index, field in enumerate(spec.fields):
        used = any(counts[field.name]) if field.name in counts else field.name in floats
        if not used:
            findings.error("F026", f"field '{field.name}' is used by nothing", "fields", index, "name")
            continue
        wrong = [bit for bit, count in enumerate(counts.get(field.name, ())) if count != 1]
        if wrong:
            times = counts[field.name][wrong[0]]
            message = f"bit {wrong[0] % 8} of byte {wrong[0] // 8} of field '{field.name}'"
            said = "is read by no plane" if times == 0 else f"is read {times} times"
            findings.error("F036", f"{message} {said}", "fields", index)


def _is_scaled(spec: Format) -> bool:
    """Whether a value is one scale times one integer that no lookup makes."""
    decode = spec.decode
    quants = decode.quants
    if quants is None or decode.scale is None or decode.scales is not None or decode.minimum is not None:
        return False
    return not quants.table and quants.grid is None and quants.signs is None and quants.times == 1


def _rounds(spec: Format) -> bool:
    """Whether encoders can look for the nearest number: a whole one, one of a table, or one of a signed grid point."""
    quants = spec.decode.quants
    if quants is None or spec.decode.scale is None or quants.times != 1:
        return False
    if quants.grid is not None:
        return quants.signs is not None and quants.offset == 0 and min(quants.grid.levels) >= 0
    return quants.signs is None


def _has_parts(decode: Decode) -> bool:
    """Whether every part has a plain integer as scale; one as minimum too only where all three begin at 0."""
    factors = [part for part in (decode.scales, decode.minimums) if part is not None]
    if decode.scales is None or any(part.table or part.grid or part.signs for part in factors):
        return False
    return decode.minimums is None or all(part.range[0] == 0 for _, part in decode.integers)


_NEEDS = {
    EncodeRule.CAST: "is for formats of plain floats",
    EncodeRule.ABSMAX: "needs one scale and integers without a lookup",
    EncodeRule.PEAK: "needs one scale and integers without a lookup",
    EncodeRule.NEAREST: "needs one scale and integers, which may be looked up",
    EncodeRule.FIT: "needs a scale for every part, and minimums only where all begins at 0",
}


def _fits(spec: Format, rule: EncodeRule) -> bool:
    decode = spec.decode
    match rule:
        case EncodeRule.CAST:
            return decode.values is not None
        case EncodeRule.ABSMAX | EncodeRule.PEAK:
            return _is_scaled(spec)
        case EncodeRule.NEAREST:
            return _rounds(spec) and decode.scales is None and decode.minimum is None
        case EncodeRule.FIT:
            return _rounds(spec) and _has_parts(decode)


def check_encode(spec: Format, findings: Findings) -> None:
    """The rule must fit what a block holds."""
    if spec.encode is None:
        return
    rule, levels = spec.encode.rule, spec.encode.levels
    if not _fits(spec, rule):
        findings.error("F027", f"rule '{rule}' {_NEEDS[rule]}", "encode", "rule")
    elif rule in (EncodeRule.CAST, EncodeRule.FIT):
        if levels is not None:
            findings.error("F028", f"rule '{rule}' has no levels", "encode", "levels")
    elif levels is None:
        findings.error("F028", f"rule '{rule}' needs 'levels'", "encode")
    else:
        _check_levels(spec.encode, levels, spec.decode.quants, findings)


def _check_levels(encode: Encode, levels: int, quants: Integers | None, findings: Findings) -> None:
    assert quants is not None
    low, high = quants.range
    most = -low if encode.rule is EncodeRule.PEAK else min(-low, high)
    if levels > most:
        message = f"{levels} levels do not fit into integers from {low} to {high} (at most {most})"
        findings.error("F028", message, "encode", "levels")


def check_activation(spec: Format, findings: Findings) -> None:
    """The activation form must be one that the dot kernels have for such blocks."""
    activation, decode = spec.activation, spec.decode
    if activation is Activation.FLOAT:
        if decode.values is None or spec.elements != 1:
            findings.error("F029", "activation 'float' is for plain floats, one per block", "activation")
        elif decode.values.type not in _VALUE_TYPES:
            message = f"activation 'float' is for values of type f32, f16 or bf16, not {decode.values.type},"
            findings.error("F029", message, "decode", "values")
        return
    if spec.elements != activation.block or decode.quants is None or not _is_factor(decode.scale):
        message = (
            f"activation '{activation}' is for blocks of {activation.block} integers with an f16 or e8m0_half scale"
        )
        findings.error("F029", message, "activation")
    elif activation is Activation.INT8 and (decode.scales is not None or decode.minimum is not None):
        findings.error("F029", "activation 'int8' is for blocks with one scale and no minimums", "activation")
    elif activation is Activation.INT8_256 and decode.scales is None:
        findings.error("F029", "activation 'int8_256' is for blocks whose parts have scales", "activation")
    elif decode.minimum is not None and not _is_factor(decode.minimum):
        message = f"activation '{activation}' is for a minimum of type f16 or e8m0_half, not {decode.minimum.type},"
        findings.error("F029", message, "decode", "minimum")
    elif decode.scales is not None and decode.minimums is not None and decode.minimums.count != decode.scales.count:
        counts = f"{decode.scales.count} scales and {decode.minimums.count} minimums"
        message = f"every part has one scale and one minimum, but there are {counts}"
        findings.error_at_key("F029", message, "decode", "minimums")


def _is_factor(field: Field | None) -> bool:
    return field is not None and field.type in _FACTOR_TYPES


def check_layouts(spec: Format, findings: Findings) -> None:
    """A layout must be one of an instruction set that has operations for it, and be named once."""
    for index, isa in enumerate(spec.layouts):
        if isa not in INTERLEAVED_ROWS:
            hint = did_you_mean(isa, INTERLEAVED_ROWS)
            message = f"'{isa}' is no instruction set with operations for rows side by side"
            findings.error("F042", message, "layouts", index, hint=hint)
        elif isa in spec.layouts[:index]:
            findings.error("F043", f"layout '{isa}' is named twice", "layouts", index)


def check_vectors(spec: Format, findings: Findings) -> None:
    """There must be vector instructions for where the bits are, in the file and in a compute layout."""
    try:
        if spec.activation is not Activation.FLOAT:
            plan_vectors(spec)
        if spec.layouts:
            plan_interleaved(spec)
    except NoVectorCode as problem:
        findings.error_at_key("F040", f"no kernel can be made: {problem}", "decode", problem.key)
