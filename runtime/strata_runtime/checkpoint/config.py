"""config.json, read against the families that the package knows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from strata_runtime.checkpoint.folder import CONFIG_FILE
from strata_runtime.errors import UserError
from strata_runtime.families import ConfigValue, FamilyInfo, Fixed, Formula, KeyInfo
from strata_runtime.nearest import did_you_mean
from strata_runtime.strict_json import json_type, read_object

_TYPE_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "str": "text",
    "ids": "a token id or a list of token ids",
}
_ABSENT = object()


@dataclass(frozen=True, slots=True)
class Config:
    """A family, and the value of each of its keys. `path`: the file that says so, `says`: how messages call it."""

    path: Path
    says: str
    family: FamilyInfo
    values: Mapping[str, ConfigValue]

    def size(self, formula: Formula) -> int:
        """Evaluate a formula as a size. Raises `UserError` when it is not whole."""
        try:
            return formula.size(self.values)
        except ValueError as problem:
            raise UserError(f"{self.path}: {problem}") from None


def _at(raw: Mapping[str, object], path: str) -> object:
    here: object = raw
    for part in path.split("."):
        if not isinstance(here, Mapping) or part not in here:
            return _ABSENT
        here = here[part]
    return here


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def typed(value: object, key: KeyInfo, where: str) -> ConfigValue:
    """Return a value in the key's type. Whole floats are no ints, bools no numbers. Raises `UserError`."""
    if key.type == "ids":
        ids = () if value is None else tuple(value) if isinstance(value, list) else (value,)
        if all(_is_int(one) and one >= 0 for one in ids):
            return ids
    elif key.type == "int" and isinstance(value, int) and not isinstance(value, bool):
        return value
    elif key.type == "float" and isinstance(value, int | float) and not isinstance(value, bool):
        # An int beyond the range of a float cannot be converted.
        if abs(value) < 1e300 and math.isfinite(value):
            return float(value)
    elif (key.type == "bool" and isinstance(value, bool)) or (key.type == "str" and isinstance(value, str)):
        return value
    raise UserError(f"{where}: expected {_TYPE_WORDS[key.type]}, found {json_type(value)}")


def check_bounds(value: ConfigValue, key: KeyInfo, where: str) -> None:
    """Check a key's own bounds. Raises `UserError`."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return
    for bound, is_wrong, words in (
        (key.minimum, key.minimum is not None and value < key.minimum, "at least"),
        (key.maximum, key.maximum is not None and value > key.maximum, "at most"),
        (key.above, key.above is not None and value <= key.above, "above"),
    ):
        if is_wrong:
            raise UserError(f"{where}: must be {words} {bound}, found {json_type(value)}")


def _read_key(raw: Mapping[str, object], key: KeyInfo, path: Path) -> ConfigValue:
    found = [(place, value) for place in key.paths if (value := _at(raw, place)) is not _ABSENT]
    # Only ids may be null; elsewhere writers use it for "not set".
    found = [(place, value) for place, value in found if value is not None or key.type == "ids"]
    if not found:
        if key.required:
            raise UserError(f"{path}: '{key.paths[0]}' is missing ({key.help.rstrip('.').lower()})")
        return key.default
    values = [typed(value, key, f"{path}: '{place}'") for place, value in found]
    if any(value != values[0] for value in values):
        raise UserError(f"{path}: '{found[0][0]}' and '{found[1][0]}' disagree: {values[0]} and {values[1]}")
    check_bounds(values[0], key, f"{path}: '{found[0][0]}'")
    return values[0]


def check_relations(values: Mapping[str, ConfigValue], key: KeyInfo, where: str) -> None:
    """Check a key, which is `where`, against the others. Raises `UserError`."""
    value = values[key.name]
    if key.at_most is not None and isinstance(value, int | float) and value > key.at_most.number(values):
        limit = key.at_most.number(values)
        raise UserError(f"{where} is {value}, more than {key.at_most} ({limit})")
    if key.multiple_of is not None and isinstance(value, int | float) and value % key.multiple_of.number(values):
        unit = key.multiple_of.number(values)
        raise UserError(f"{where} is {value}, not a multiple of {key.multiple_of} ({unit})")


def _check_fixed(raw: Mapping[str, object], fixed: Fixed, path: Path) -> None:
    value = _at(raw, fixed.path)
    listed = tuple(value) if isinstance(value, list) else value
    # 1 and true are equal in Python and not in JSON.
    if value is _ABSENT or any(type(listed) is type(allowed) and listed == allowed for allowed in fixed.allowed):
        return
    allowed = " or ".join("[]" if one == () else json_type(one) for one in fixed.allowed)
    raise UserError(f"{path}: '{fixed.path}' is {json_type(value)}, only {allowed} works: {fixed.note}")


def find_family(raw: Mapping[str, object], families: Sequence[FamilyInfo], path: Path) -> FamilyInfo:
    """Return the family that claims the config's `model_type`. Raises `UserError` with the known ones."""
    model_type = raw.get("model_type", _ABSENT)
    known = {name: family for family in families for name in family.model_types}
    if not isinstance(model_type, str):
        found = "is missing" if model_type is _ABSENT else f"is {json_type(model_type)}"
        raise UserError(f"{path}: 'model_type' {found}; known: {', '.join(sorted(known))}")
    if model_type not in known:
        listed = ", ".join(sorted(known)) + did_you_mean(model_type, known)
        raise UserError(f"{path}: model type {json_type(model_type)} is not supported; known: {listed}")
    family = known[model_type]
    architectures = raw.get("architectures") or list(family.architectures)
    if not isinstance(architectures, list) or not set(map(str, architectures)) & set(family.architectures):
        raise UserError(
            f"{path}: 'architectures' names none of {', '.join(family.architectures)}: "
            f"found {json_type(architectures)} ({some_text(architectures)})"
        )
    return family


def some_text(value: object) -> str:
    """Show a list of a config shortly."""
    return ", ".join(json_type(item) for item in value[:3]) if isinstance(value, list) else json_type(value)


def read_config(folder: Path, families: Sequence[FamilyInfo]) -> Config:
    """Read and check config.json of a checkpoint folder. Raises `UserError` naming the key, what it is, what it may be.

    Keys that no family names are left alone: they carry what training and other programs need.
    """
    path = folder / CONFIG_FILE
    if not path.exists():
        raise UserError(f"{path}: no such file; a checkpoint is a folder with {CONFIG_FILE} and its tensors")
    raw = read_object(path)
    family = find_family(raw, families, path)
    for fixed in family.fixed:
        _check_fixed(raw, fixed, path)
    values = {key.name: _read_key(raw, key, path) for key in family.keys}
    for key in family.keys:
        check_relations(values, key, f"{path}: '{key.name}'")
    return Config(path, CONFIG_FILE, family, values)
