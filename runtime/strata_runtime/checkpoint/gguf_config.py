"""The metadata of a GGUF file, read against the families that the package knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from strata_runtime.checkpoint.config import Config, check_bounds, check_relations, typed
from strata_runtime.checkpoint.stored import some
from strata_runtime.errors import UserError
from strata_runtime.families import ConfigValue, FamilyInfo, GgufInfo, GgufKey, GgufRule, KeyInfo
from strata_runtime.gguf.files import GgufFile
from strata_runtime.gguf.metadata import Array, Metadata, Value, shown
from strata_runtime.nearest import did_you_mean

ARCHITECTURE = "general.architecture"
_WHOLE = "tokenizer."  # keys that begin so do not belong to the architecture
_TEXT_SECTIONS = 3  # rope sections whose positions are those of a text's tokens; those of the fourth are all 0


def full_key(architecture: str, key: str) -> str:
    """Return the whole metadata key of one that a family writes without the architecture's name."""
    return key if key.startswith(_WHOLE) else f"{architecture}.{key}"


def _find_family(metadata: Metadata, families: Sequence[FamilyInfo]) -> tuple[FamilyInfo, GgufInfo, str]:
    known = {name: (family, family.gguf) for family in families if family.gguf for name in family.gguf.architectures}
    architecture = metadata.text(ARCHITECTURE)
    if architecture is None:
        raise UserError(f"{metadata.path}: '{ARCHITECTURE}' is missing; known: {', '.join(sorted(known))}")
    if architecture not in known:
        listed = ", ".join(sorted(known)) + did_you_mean(architecture, known)
        raise UserError(f"{metadata.path}: architecture {shown(architecture)} is not supported; known: {listed}")
    family, gguf = known[architecture]
    return family, gguf, architecture


def _worked_out(key: GgufKey, value: ConfigValue, values: Mapping[str, ConfigValue]) -> ConfigValue:
    """Apply what a key's number stands for: `zero`, `minus`, `over`."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return value
    if value == 0 and key.zero is not None:
        return key.zero
    minus = values[key.minus] if key.minus is not None else 0
    over = values[key.over] if key.over is not None else 1
    assert isinstance(minus, int | float)
    assert isinstance(over, int | float)
    return value - minus if key.over is None else (value - minus) / over


def _from_metadata(
    metadata: Metadata, name: str, key: GgufKey, info: KeyInfo, values: Mapping[str, ConfigValue]
) -> ConfigValue:
    where = f"{metadata.path}: '{name}'"
    found = metadata.get(name)
    if found is None:
        if key.default is None:
            raise UserError(f"{where} is missing ({info.help.rstrip('.').lower()})")
        return key.default
    if isinstance(found, Array):
        raise metadata.wrong(name, "one value for all layers")
    value = _worked_out(key, typed(found, info, where), values)
    operands = {"minus": key.minus, "over": key.over}
    words = [f" {word} {name} ({values[name]})" for word, name in operands.items() if name is not None]
    check_bounds(value, info, where + "".join(words))
    return value


def _value(file: GgufFile, name: str, key: GgufKey, info: KeyInfo, values: Mapping[str, ConfigValue]) -> ConfigValue:
    if key.key is not None:
        return _from_metadata(file.metadata, name, key, info, values)
    if key.present is not None:
        return key.present in file.tensors
    if key.absent is not None:
        return key.absent not in file.tensors
    if key.rows is None:
        return key.value
    tensor = file.tensors.get(key.rows)
    if tensor is None or not tensor.shape:
        raise UserError(f"{file.path}: the tensor '{key.rows}' is missing ({info.help.rstrip('.').lower()})")
    check_bounds(tensor.shape[0], info, f"{file.path}: the rows of '{key.rows}'")
    return tensor.shape[0]


def _is_one_of(value: Value, allowed: Sequence[object]) -> bool:
    """Whether a value is allowed. 0 and 0.0 are one number; true is none."""
    return any(isinstance(value, bool) == isinstance(one, bool) and value == one for one in allowed)


def _check_sections(config: Config, metadata: Metadata, name: str, rule: GgufRule) -> None:
    array = metadata.array(name)
    assert array is not None
    assert rule.sections is not None
    sections = [size for size in array.values() if isinstance(size, int) and size >= 0]
    if len(sections) != array.count:
        raise UserError(f"{metadata.path}: '{name}' must hold whole numbers from 0 up")
    rotated = config.size(rule.sections)
    if any(sections[_TEXT_SECTIONS:]) and 2 * sum(sections[:_TEXT_SECTIONS]) < rotated:
        raise UserError(
            f"{metadata.path}: '{name}' covers {2 * sum(sections[:_TEXT_SECTIONS])} of the {rotated} rotated elements "
            f"of a head before its last section: {rule.note}"
        )


def _check_rule(config: Config, metadata: Metadata, name: str, rule: GgufRule) -> None:
    found = metadata.get(name)
    if found is None:
        return
    if rule.sections is not None:
        _check_sections(config, metadata, name, rule)
        return
    equal = [] if rule.equals is None else [config.size(rule.equals)]
    for value in found.values() if isinstance(found, Array) else [found]:
        if isinstance(value, Array) or not _is_one_of(value, [*rule.allowed, *equal]):
            words = [
                *(shown(one) for one in rule.allowed if one is not None),
                *(f"{one} ({rule.equals})" for one in equal),
            ]
            is_found = "an array of arrays" if isinstance(value, Array) else shown(value)
            holds = "holds" if isinstance(found, Array) else "is"
            raise UserError(
                f"{metadata.path}: '{name}' {holds} {is_found}, only {' or '.join(words)} works: {rule.note}"
            )


def _is_ignored(key: str, gguf: GgufInfo) -> bool:
    patterns = [pattern for ignored in gguf.ignored for pattern in ignored.keys]
    return any(key == one or (one.endswith(".*") and key.startswith(one[:-1])) for one in patterns)


def _check_known(metadata: Metadata, architecture: str, family: FamilyInfo, gguf: GgufInfo) -> None:
    prefix = f"{architecture}."
    known = {key.key for key in gguf.config if key.key is not None} | {key for rule in gguf.rules for key in rule.keys}
    own = [key for key in metadata if key.startswith(prefix)]
    if unknown := [key for key in own if (rest := key[len(prefix) :]) not in known and not _is_ignored(rest, gguf)]:
        raise UserError(
            f"{metadata.path}: its metadata holds keys that family {family.name} has no place for: {some(unknown)}: "
            "they may change what the network computes"
        )


def read_gguf_config(file: GgufFile, families: Sequence[FamilyInfo]) -> Config:
    """Read and check what a GGUF file says of its network. Raises `UserError` naming the key, and what it may be.

    Keys of the architecture that the family does not name are refused; other keys are left alone: they are about the
    file, its author, and its vocabulary.
    """
    metadata = file.metadata
    family, gguf, architecture = _find_family(metadata, families)
    _check_known(metadata, architecture, family, gguf)
    infos = {info.name: info for info in family.keys}
    values: dict[str, ConfigValue] = {}
    for key in gguf.config:
        values[key.name] = _value(file, full_key(architecture, key.key or ""), key, infos[key.name], values)
    for key in gguf.config:
        called = f"'{full_key(architecture, key.key)}' ({key.name})" if key.key is not None else f"'{key.name}'"
        check_relations(values, infos[key.name], f"{metadata.path}: {called}")
    config = Config(metadata.path, "its metadata", family, values)
    for rule in gguf.rules:
        for name in rule.keys:
            _check_rule(config, metadata, full_key(architecture, name), rule)
    return config
