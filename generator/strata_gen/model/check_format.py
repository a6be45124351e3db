"""What formats can get wrong beyond one file: two that claim one name, layouts for instruction sets that are none."""

from __future__ import annotations

from collections.abc import Callable

from strata_gen.diagnostics import Note, Sink, did_you_mean
from strata_gen.model.format import Format
from strata_gen.model.specset import SpecSet

_NAMES: tuple[tuple[str, Callable[[Format], str | None]], ...] = (
    ("name", lambda spec: spec.name),
    ("safetensors dtype", lambda spec: spec.safetensors),
    ("GGUF type", lambda spec: spec.gguf),
)


_LANE_BYTES = 4


def _check_layouts(specs: SpecSet, sink: Sink) -> None:
    lanes = {level.isa: level.vector_bytes // _LANE_BYTES for target in specs.targets for level in target.levels}
    for spec in specs.formats if lanes else ():  # formats by themselves say nothing of CPUs
        for layout in spec.layouts:
            if layout.isa not in lanes:
                message = f"format '{spec.name}' has a layout for '{layout.isa}', which is no CPU level's 'isa'"
                sink.error("F042", message, layout.span, did_you_mean(layout.isa, lanes))
            elif layout.rows != lanes[layout.isa]:
                message = f"format '{spec.name}' puts {layout.rows} rows side by side for '{layout.isa}'"
                sink.error("F043", f"{message}, whose vectors have {lanes[layout.isa]} lanes of 32 bits", layout.span)


def check_formats(specs: SpecSet, sink: Sink) -> None:
    """Report names that two formats share, and layouts that no kernels are for."""
    _check_layouts(specs, sink)
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
