"""A network's config as GGUF metadata: how the family reads them, the other way round."""

from __future__ import annotations

from collections.abc import Mapping

from strata_runtime.checkpoint.config import Config
from strata_runtime.checkpoint.gguf_config import full_key
from strata_runtime.errors import UserError
from strata_runtime.families import ConfigValue, Formula, GgufInfo, GgufKey, Term

Value = bool | int | float | str | list[str] | list[int]
"""What a metadata key holds. Whole numbers are written in 32 bits, others in single precision."""


def gguf_of(config: Config) -> GgufInfo:
    """Return how the family looks in GGUF files. Raises `UserError` when it has no such form."""
    if config.family.gguf is None:
        raise UserError(f"{config.path}: models of family {config.family.name} have no form in GGUF files")
    return config.family.gguf


def _stored(config: Config, key: GgufKey, value: ConfigValue) -> Value | None:
    """Return what a file holds for a config key's value; None: nothing."""
    if isinstance(value, tuple):
        return value[0] if value else None
    if isinstance(value, bool | str) or value is None:
        return value
    if key.over is not None:
        # The file has a count, config.json the share of it.
        value = config.size(Formula((Term(1, (key.name, key.over)),)))
    minus = config.values[key.minus] if key.minus is not None else 0
    assert isinstance(minus, int | float)
    return value + minus


def network_keys(config: Config) -> Mapping[str, Value]:
    """Return the metadata of a network by whole key, and of no tokenizer but the end token. Raises `UserError`."""
    gguf = gguf_of(config)
    architecture = gguf.architectures[0]
    keys: dict[str, Value] = {}
    for key in gguf.config:
        if key.key is not None and (value := _stored(config, key, config.values[key.name])) is not None:
            keys[full_key(architecture, key.key)] = value
    for rule in gguf.rules:
        if rule.written is not None:
            keys |= {full_key(architecture, name): config.size(rule.written) for name in rule.keys}
    return keys
