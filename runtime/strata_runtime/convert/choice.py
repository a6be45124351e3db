"""Which format each tensor of a converted file is written in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from strata_runtime.errors import UserError
from strata_runtime.families import EXPERT_ROLES
from strata_runtime.formats import FormatInfo
from strata_runtime.nearest import did_you_mean

_VOCABULARY_ROLES = frozenset({"embedding", "head", "mtp_embedding", "mtp_head"})
_EXACT = "F32"
_GOOD_BITS = 8  # from here on, formats are good enough for the matrices that every token passes

Kind = Literal["experts", "dense", "vocabulary"]


@dataclass(frozen=True, slots=True)
class Formats:
    """Formats by kind of matrix; what is no matrix, and the router, stay `exact`. `writable`: all there are."""

    experts: FormatInfo
    dense: FormatInfo
    vocabulary: FormatInfo
    exact: FormatInfo
    writable: tuple[FormatInfo, ...]

    def wanted(self, role: str, rank: int) -> FormatInfo:
        """Return the format that tensors of a role were asked for in; `rank` counts one's dimensions."""
        if rank < 2 or role == "router":
            return self.exact
        if role in EXPERT_ROLES:
            return self.experts
        return self.vocabulary if role in _VOCABULARY_ROLES else self.dense

    def fitting(self, form: FormatInfo, columns: int) -> FormatInfo:
        """Return `form`, or the smallest other one whose blocks divide `columns` that has a bit more for each value.

        The bit more is for what smaller blocks spend on their scales.
        """
        if columns % form.block_elements == 0:
            return form
        enough = (o for o in self.writable if columns % o.block_elements == 0 and bits(o) >= bits(form) + 1)
        return min(enough, key=bits, default=self.exact)


def bits(form: FormatInfo) -> float:
    """Bits for each value, scales included."""
    return form.block_bytes * 8 / form.block_elements


def _find(name: str, what: Kind, writable: Sequence[FormatInfo], formats: Sequence[FormatInfo]) -> FormatInfo:
    for form in writable:
        if name.lower() == form.name:
            return form
    names = ", ".join(form.name for form in writable)
    if any(name.lower() == form.name for form in formats):
        raise UserError(f"format {name} of {what} can be read and not be made; what can be: {names}")
    hint = did_you_mean(name.lower(), [form.name for form in writable])
    raise UserError(f"there is no format {name!r}, wanted for {what}; what can be made: {names}{hint}")


def choose_formats(
    formats: Sequence[FormatInfo], experts: str, dense: str | None = None, vocabulary: str | None = None
) -> Formats:
    """Look up formats by name. Raises `UserError` for one that there is not, or that cannot be made.

    Without `dense` it is that of the experts, or when that has less than 8 bits for each value, the smallest one of
    as many; without `vocabulary` it is that of dense matrices.
    """
    writable = tuple(form for form in formats if form.encodes and form.gguf is not None)
    exact = next(form for form in writable if form.gguf == _EXACT)
    chosen = _find(experts, "experts", writable, formats)
    if dense is not None:
        other = _find(dense, "dense", writable, formats)
    elif bits(chosen) >= _GOOD_BITS:
        other = chosen
    else:
        other = min((form for form in writable if bits(form) >= _GOOD_BITS), key=bits)
    last = other if vocabulary is None else _find(vocabulary, "vocabulary", writable, formats)
    return Formats(chosen, other, last, exact, writable)
