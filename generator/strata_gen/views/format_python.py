"""The Python side of weight formats: the tables that the runtime's reference decoder reads."""

from __future__ import annotations

from dataclasses import dataclass

from strata_gen.model.fields import Field
from strata_gen.model.format import Format
from strata_gen.model.integers import Integers, Plane


@dataclass(frozen=True, slots=True)
class PythonFormat:
    """One format in Python; every field is an expression."""

    name: str
    title: str
    help: str
    elements: int
    bytes: int
    values: str
    quants: str
    scale: str
    scales: str
    minimum: str
    minimums: str
    activation: str
    encodes: str
    safetensors: str
    gguf: str


@dataclass(frozen=True, slots=True)
class FormatsModule:
    """What `formats.py` holds."""

    formats: tuple[PythonFormat, ...]


def _python_field(field: Field | None) -> str:
    return "None" if field is None else f"Field({str(field.type)!r}, {field.offset}, {field.count})"


def _python_plane(plane: Plane) -> str:
    arguments = (
        f"byte={plane.field.offset}, bits={plane.bits}, start={plane.start}, to={plane.to}",
        f"strides={plane.strides!r}, when={plane.when!r}, signed={plane.is_signed}",
    )
    return f"Plane({', '.join(arguments)})"


def _python_integers(integers: Integers | None) -> str:
    if integers is None:
        return "None"
    parts = [
        f"digits={tuple(digit.count for digit in integers.digits)!r}",
        f"planes=({', '.join(map(_python_plane, integers.planes))},)",
    ]
    if integers.signs is not None:
        parts.append(f"signs={_python_plane(integers.signs)}")
    if integers.table:
        parts.append(f"table={integers.table!r}")
    if integers.grid is not None:
        grid = integers.grid
        points = " ".join("".join(map(str, entry)) for entry in grid.entries)
        parts.append(f"levels={grid.levels!r}, points={points!r}")
    if integers.times != 1:
        parts.append(f"times={integers.times}")
    if integers.offset:
        parts.append(f"offset={integers.offset}")
    return f"Integers({', '.join(parts)})"


def python_format(spec: Format) -> PythonFormat:
    """Return the expressions of one format."""
    decode = spec.decode
    return PythonFormat(
        name=repr(spec.name),
        title=repr(spec.title),
        help=repr(spec.help),
        elements=spec.elements,
        bytes=spec.bytes,
        values=_python_field(decode.values),
        quants=_python_integers(decode.quants),
        scale=_python_field(decode.scale),
        scales=_python_integers(decode.scales),
        minimum=_python_field(decode.minimum),
        minimums=_python_integers(decode.minimums),
        activation=repr(str(spec.activation)),
        encodes=str(spec.encode is not None),
        safetensors=repr(spec.safetensors),
        gguf=repr(spec.gguf),
    )
