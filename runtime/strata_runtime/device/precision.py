"""In what numbers a device computes where a choice is left."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

FloatName = Literal["f32", "f16", "bf16"]

_TYPES: dict[FloatName, torch.dtype] = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


@dataclass(frozen=True, slots=True)
class Precision:
    """`cache_name`: of keys and values. `products_name`: what matrix products of prompts multiply."""

    cache_name: FloatName
    products_name: FloatName

    @property
    def cache(self) -> torch.dtype:
        """The type of keys and values."""
        return _TYPES[self.cache_name]

    @property
    def products(self) -> torch.dtype:
        """The type of the factors of prompts' matrix products."""
        return _TYPES[self.products_name]
