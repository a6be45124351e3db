"""The family kind: `specs/models/*.yaml`."""

from __future__ import annotations

from strata_gen.edge.base import SpecKind, file_by_file
from strata_gen.edge.family_convert import convert_file
from strata_gen.edge.family_edge import FamilyFile
from strata_gen.model.family import Family

FAMILY: SpecKind[FamilyFile, Family] = SpecKind("family", "models", "M", FamilyFile, file_by_file(convert_file))
