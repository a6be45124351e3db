"""The numbers that a GGUF file uses for types: of metadata values, and of tensors."""

from __future__ import annotations

from typing import Protocol

from strata_runtime.errors import UserError

SCALARS = {
    0: ("u8", "<u1"), 1: ("i8", "<i1"), 2: ("u16", "<u2"), 3: ("i16", "<i2"), 4: ("u32", "<u4"), 5: ("i32", "<i4"),
    6: ("f32", "<f4"), 10: ("u64", "<u8"), 11: ("i64", "<i8"), 12: ("f64", "<f8"),
}  # fmt: skip
"""Metadata numbers: name and numpy dtype by type number."""
BOOL, TEXT, ARRAY = 7, 8, 9
VALUE_NAMES = {number: name for number, (name, _) in SCALARS.items()} | {BOOL: "bool", TEXT: "text", ARRAY: "array"}

_TENSOR_NAMES = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 6: "Q5_0", 7: "Q5_1", 8: "Q8_0", 9: "Q8_1", 10: "Q2_K", 11: "Q3_K",
    12: "Q4_K", 13: "Q5_K", 14: "Q6_K", 15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S",
    20: "IQ4_NL", 21: "IQ3_S", 22: "IQ2_S", 23: "IQ4_XS", 24: "I8", 25: "I16", 26: "I32", 27: "I64", 28: "F64",
    29: "IQ1_M", 30: "BF16", 34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4", 40: "NVFP4", 41: "Q1_0",
}  # fmt: skip


class BlockFormat(Protocol):
    """What the reader needs of a weight format: its name in GGUF files (None: it has none) and its block."""

    @property
    def gguf(self) -> str | None:
        """Name in GGUF files, such as `Q8_0`."""

    @property
    def block_elements(self) -> int:
        """Values in a block."""

    @property
    def block_bytes(self) -> int:
        """Bytes of a block."""


def tensor_type(number: int) -> str:
    """Name a tensor type; those without a name are called by their number."""
    return _TENSOR_NAMES.get(number, f"type {number}")


def value_type(number: int, where: str) -> str:
    """Name a metadata type. Raises `UserError` for numbers that mean nothing: what follows cannot be read then."""
    if number not in VALUE_NAMES:
        raise UserError(f"{where}: unknown value type {number}: the file is damaged or newer than this reader")
    return VALUE_NAMES[number]
