"""The table of every error code. A code is stable: it never changes its meaning and is never used again.

The letter names what is read: Y YAML, K knob, T target, F format, N kernel, M model family, P protocol. 010 to 019 are
mistakes of shape, which every kind shares; a kind's own begin at 020.
"""

from __future__ import annotations

from collections.abc import Mapping

from strata_gen.codes import families, formats, kernels, knobs, protocols, shape, syntax, targets
from strata_gen.codes.explanation import Explanation

_ALL: tuple[Explanation, ...] = (
    *syntax.CODES,
    *shape.CODES,
    *knobs.CODES,
    *targets.CODES,
    *formats.CODES,
    *kernels.CODES,
    *families.CODES,
    *protocols.CODES,
)

CODES: Mapping[str, Explanation] = {entry.code: entry for entry in sorted(_ALL, key=lambda entry: entry.code)}
