"""The fingerprint of a session: what the numbers of a run depend on, beside its tokens."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from strata_runtime.knobs import KnobInfo, KnobValue, Resolution
from strata_runtime.knobs.grammar import show
from strata_runtime.provider import Provider
from strata_runtime.whole_file import read_whole

NEUTRAL = "identical"
"""`output` of a knob whose values all give the same bits."""


@dataclass(frozen=True, slots=True)
class Session:
    """Runs with equal sessions give equal numbers for equal tokens; others may differ.

    `model`: its identity. `package`: build key of the kernels and the CPU level that they run at. `arranged_bytes`: of
    weights arranged for it, which an `auto` decides by the memory that is there. `knobs`: each that may change the
    output, with its value as text; for a file the digest of its content.
    """

    model: str
    package: str
    arranged_bytes: int
    knobs: tuple[tuple[str, str], ...]

    @property
    def fingerprint(self) -> str:
        """16 hex digits."""
        return hashlib.sha256(self.as_text().encode()).hexdigest()[:16]

    def as_text(self) -> str:
        """Return canonical JSON, which `read_session` takes."""
        return json.dumps({**asdict(self), "knobs": dict(self.knobs)}, sort_keys=True)

    def differences(self, other: Session) -> Iterator[str]:
        """Yield what sets this session apart from another; the layout of weights where nothing else explains it."""
        found = list(self._differences(other))
        if not found and self.arranged_bytes != other.arranged_bytes:
            found.append("another layout of weights")
        yield from found

    def _differences(self, other: Session) -> Iterator[str]:
        if self.model != other.model:
            yield "another model"
        if self.package != other.package:
            yield "another kernels package"
        own, others = dict(self.knobs), dict(other.knobs)
        for name in sorted(own.keys() | others.keys()):
            if own.get(name) != others.get(name):
                yield f"{name}={own.get(name) or 'unset'}, not {others.get(name) or 'unset'}"


def session_of(model: str, arranged_bytes: int, provider: Provider, resolution: Resolution) -> Session:
    """Return the session of a loaded model. `model`: its identity, `arranged_bytes` as `ModelInfo` has them."""
    knobs = [knob for knob in resolution.knobs if knob.output != NEUTRAL]
    texts = tuple(sorted((knob.name, _told(knob, resolution.values[knob.name])) for knob in knobs))
    return Session(model, f"{provider.manifest.key} {provider.native.ISA}", arranged_bytes, texts)


def _told(knob: KnobInfo, value: KnobValue) -> str:
    if knob.type == "path" and value is not None:
        return hashlib.sha256(read_whole(Path(str(value)))).hexdigest()[:16]
    return show(knob, value)


def read_session(text: str) -> Session:
    """Return the session of a text that `as_text` made. Raises `ValueError` for any other."""
    try:
        found = json.loads(text)
        knobs = tuple(sorted(found.pop("knobs").items()))
        session = Session(**found, knobs=knobs)
    except (TypeError, KeyError, AttributeError, RecursionError):
        raise ValueError("no session") from None
    texts = (session.model, session.package, *(text for pair in knobs for text in pair))
    if not all(isinstance(text, str) for text in texts) or type(session.arranged_bytes) is not int:
        raise ValueError("no session")
    return session
