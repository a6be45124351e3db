"""Variables that look like ours and are not."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from strata_runtime.knobs.info import KnobInfo
from strata_runtime.nearest import did_you_mean

PREFIX = "STRATA_"
GENERATOR_PREFIX = "STRATA_GEN_"

# Kubernetes puts the addresses of a service named "strata" or "strata-..." into every container.
_SERVICE = re.compile(r"STRATA_(.*_)?(SERVICE_HOST|SERVICE_PORT(_.*)?|PORT(_.*)?)")


def unknown_variables(knobs: Sequence[KnobInfo], environ: Mapping[str, str]) -> list[str]:
    """Return one line for each `STRATA_*` variable that no knob has, sorted by name."""
    known = {knob.env for knob in knobs}
    strangers = sorted(
        name
        for name in environ
        if name.startswith(PREFIX)
        and name not in known
        and not name.startswith(GENERATOR_PREFIX)
        and not _SERVICE.fullmatch(name)
    )
    return [f"{name}: there is no such variable{did_you_mean(name, known)}" for name in strangers]
