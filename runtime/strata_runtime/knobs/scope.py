"""Settings for a while: values, not state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol, TypeVar

from strata_runtime.errors import UserError
from strata_runtime.knobs.given import from_python
from strata_runtime.knobs.info import KnobValue
from strata_runtime.knobs.resolve import Resolution, settle

SettingsT_co = TypeVar("SettingsT_co", covariant=True)


class SettingsType(Protocol[SettingsT_co]):
    """The class `Settings` of a kernels package."""

    def from_values(self, values: Mapping[str, KnobValue], /) -> SettingsT_co:
        """Build the nested settings from one value per dotted name."""
        ...


@contextmanager
def scope(resolution: Resolution, settings: SettingsType[SettingsT_co], **overrides: object) -> Iterator[SettingsT_co]:
    """Yield new settings in which `overrides` (`verify_ecap=16`) are stronger than every other source.

    Nothing global changes: only code that is handed the new value sees it. Relations are looked at again. Raises
    `UserError` as `resolve` does, and for an override that would not be taken as it is.
    """
    layer = from_python(resolution.knobs, overrides)
    scoped = settle(resolution.knobs, (*resolution.layers, layer))
    refused = [line for line in scoped.lines if line not in resolution.lines]
    if refused:
        raise UserError("\n".join(refused))
    yield settings.from_values(scoped.values)
