"""What formats can get wrong beyond one file: two that claim one name."""

from __future__ import annotations

from collections.abc import Callable

from strata_gen.diagnostics import Note, Sink
from strata_gen.model.format import Format
from strata_gen.model.specset import SpecSet

_NAMES: tuple[tuple[str, Callable[[Format], str | None]], ...] = (
    ("name", lambda spec: spec.name),
    ("safetensors dtype", lambda spec: spec.safetensors),
    ("GGUF type", lambda spec: spec.gguf),
)


def check_formats(specs: SpecSet, sink: Sink) -> None:
    """Report names that two formats share."""
    for what, name_of in _NAMES:
        seen: dict[str, Format] = {}
        for spec in sorted(specs.formats, key=lambda spec: spec.span):
            name = name_of(spec)
            if name is None:
                continue
            if name in seen:
                first = Note("the first one", seen[name].span)
                sink.error("F030", f"two formats have the {what} '{name}'", spec.span, notes=(first,))
            seen.setdefault(name, spec)
