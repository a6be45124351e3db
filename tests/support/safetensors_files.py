"""Safetensors files for fuzzing and for the replay of its corpus."""

from __future__ import annotations

import math
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

from strata_runtime.checkpoint.header import ITEM_BYTES, parse_header
from strata_runtime.errors import UserError


def exercise(content: bytes) -> None:
    """Read a header, and check what was promised of it. Nothing but clear errors may come up."""
    with suppress(UserError):
        entries = sorted(
            parse_header(Path("any.safetensors"), memoryview(content)).values(), key=lambda e: (e.start, e.stop)
        )
        assert all(first.stop == second.start for first, second in pairwise(entries))
        assert not entries or entries[-1].stop == len(content)
        assert all(e.stop - e.start == math.prod(e.shape) * ITEM_BYTES[e.dtype] for e in entries)
