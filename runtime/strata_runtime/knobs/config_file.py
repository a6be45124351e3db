"""The config file: TOML, one table per section, `attribute = value`.

[pool]
threads = 4
spin = "50us"
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from strata_runtime import __version__
from strata_runtime.errors import UserError
from strata_runtime.knobs.given import Given, Layer, plain_text
from strata_runtime.knobs.grammar import trimmed
from strata_runtime.knobs.info import KnobInfo, Origin, Source
from strata_runtime.nearest import did_you_mean
from strata_runtime.sizes import size
from strata_runtime.whole_file import require_file

CONFIG_FILE_KNOB = "config.file"
_BYTES_AT_MOST = 1 << 20


def read_config_file(knobs: Sequence[KnobInfo], path: Path) -> Layer:
    """Read one config file. Raises `UserError` when it cannot be read, or holds a key that this version has not."""
    layer: dict[str, Given] = {}
    by_name = {knob.name: knob for knob in knobs}
    for name, value in _entries(knobs, path, _load(path)):
        knob = by_name.get(name)
        if knob is None:
            raise _unknown(path, name, by_name)
        if name == CONFIG_FILE_KNOB:
            raise UserError(f"{path}: a config file cannot name another one: remove '{name}'")
        try:
            text = plain_text(knob, value)
        except UserError as why:
            raise UserError(f"{path}: {why}") from None
        if trimmed(text):
            layer[name] = Given(text, Origin(Source.CONFIG, str(path)))
    return layer


def _load(path: Path) -> dict[str, object]:
    import tomllib  # most programs have no config file, and every one pays for imports

    try:
        require_file(path)
        with path.open("rb") as file:
            data = file.read(_BYTES_AT_MOST + 1)
        if len(data) > _BYTES_AT_MOST:
            raise UserError(f"config file {path} is larger than {size(_BYTES_AT_MOST)}")
        return tomllib.loads(data.decode("utf-8-sig").replace("\r\n", "\n"))
    except OSError as problem:
        raise UserError(f"config file {path} cannot be read: {problem.strerror}") from None
    except UnicodeDecodeError as problem:
        raise UserError(f"config file {path} is not UTF-8 text: byte {problem.start} cannot be read") from None
    except (ValueError, RecursionError) as problem:
        raise UserError(f"config file {path} is not valid TOML: {problem}") from None


def _entries(knobs: Sequence[KnobInfo], path: Path, data: dict[str, object]) -> Iterator[tuple[str, object]]:
    """Yield dotted names and values; tables are sections, and anything else at the top level is misplaced."""
    sections = sorted({knob.section for knob in knobs})
    for section, table in data.items():
        if section not in sections:
            hint = did_you_mean(section, sections)
            raise UserError(f"{path}: unknown section '{section}' (this is strata {__version__}){hint}")
        if not isinstance(table, dict):
            raise UserError(f"{path}: '{section}' must be a table: write [{section}] and its keys below")
        for attribute, value in table.items():
            yield f"{section}.{attribute}", value


def _unknown(path: Path, name: str, known: dict[str, KnobInfo]) -> UserError:
    section, _, attribute = name.partition(".")
    hint = did_you_mean(attribute, [knob.attribute for knob in known.values() if knob.section == section])
    return UserError(f"{path}: unknown key '{attribute}' in section [{section}] (this is strata {__version__}){hint}")
