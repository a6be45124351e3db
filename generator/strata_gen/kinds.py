"""The registry of spec kinds: to add a kind, write its edge and model and name it here."""

from __future__ import annotations

from typing import Any

from strata_gen.edge.base import SpecKind
from strata_gen.edge.family import FAMILY
from strata_gen.edge.format import FORMAT
from strata_gen.edge.kernel import KERNEL
from strata_gen.edge.knob import KNOB
from strata_gen.edge.protocol import PROTOCOL
from strata_gen.edge.target import TARGET

KINDS: tuple[SpecKind[Any, Any], ...] = (KNOB, TARGET, FORMAT, KERNEL, FAMILY, PROTOCOL)
