"""strata: runs mixture-of-experts language models through a generated native runtime.

`Engine.load` loads a model folder, `Engine.generate` makes text. Importing this package alone is cheap: the engine and
what it needs (torch, tokenizers) are imported when `Engine` is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from strata_runtime.errors import UserError

if TYPE_CHECKING:
    from strata_runtime.engine import Engine
    from strata_runtime.params import SamplingParams

__version__ = "0.1.0"

__all__ = ["Engine", "SamplingParams", "UserError", "__version__"]

_LAZY = {"Engine": "strata_runtime.engine", "SamplingParams": "strata_runtime.params"}


def __getattr__(name: str) -> object:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
