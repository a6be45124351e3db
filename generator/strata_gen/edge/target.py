"""The target kind: `specs/targets/*.yaml`."""

from __future__ import annotations

from strata_gen.edge.base import SpecKind
from strata_gen.edge.target_convert import convert_files
from strata_gen.edge.target_edge import TargetFile
from strata_gen.model.target import Target

TARGET: SpecKind[TargetFile, Target] = SpecKind("target", "targets", "T", TargetFile, convert_files)
