"""Device kernels over numpy arrays: in the program of `tests/device`, which has a CPU's and a GPU's waves."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from strata_gen.model.target import Target
from strata_gen.paths import project_root, runtime_root, specs_root
from strata_gen.render import render_tree
from strata_gen.resolve import find_target, make_plan
from strata_gen.specs import load_specs
from strata_gen.views import formats
from strata_runtime.formats import FormatInfo
from support.native_programs import Unit, compile_program

Array = NDArray[Any]
WAVES = (1, 32, 64)
_SOURCES = project_root() / "tests" / "device"
_LARGE = {"linear.cpp", "products.cpp"}
_QUICK = (
    "-fno-sanitize=undefined",
    "--param=asan-stack=0",
    "--param=asan-instrumentation-with-call-threshold=0",
)
"""Arrays of a job are watched there as well, but nothing that takes many times as long to compile."""


class Refused(Exception):
    """What the kernel's launch or the emulator said."""


def generated_sources(root: Path, target: Target | None = None) -> Path:
    """Write the generated headers of a target below `root`, by default of this machine's CPU; return `root`."""
    specs = load_specs((specs_root(),))
    for file in render_tree(make_plan(specs, target or find_target(specs, "cpu", "native"), {})):
        if file.path.startswith("include/") or file.path.endswith("/formats.cpp"):
            path = root / file.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(file.text, encoding="utf-8")
    return root


@cache
def generated_formats() -> tuple[FormatInfo, ...]:
    """What a kernels package's `formats.py` holds, executed here; the index is the format's id."""
    specs = load_specs((specs_root(),))
    files = render_tree(make_plan(specs, find_target(specs, "cpu", "native"), {}), (formats,))
    module: dict[str, Any] = {}
    exec(next(file.text for file in files if file.path.endswith("formats.py")), module)
    return tuple(module["FORMATS"])


def compile_machine(root: Path) -> Path:
    """Compile the program, watched by sanitizers; `root` is an empty folder for generated sources."""
    generated = generated_sources(root)
    tables = (generated / "src" / "gen" / "formats.cpp", runtime_root() / "src" / "grid_quants.cpp")
    units = [Unit(path, _QUICK if path.name in _LARGE else ()) for path in (*sorted(_SOURCES.glob("*.cpp")), *tables)]
    return compile_program("device", units, (generated / "include", runtime_root() / "include"), "address,undefined")


class Machine:
    """The running program."""

    def __init__(self, program: Path) -> None:
        self._process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._process.wait(60) == 0, "the program did not end cleanly"

    def run(
        self, kernel: str, numbers: Sequence[float], arrays: Sequence[Array | None], wave: int, seed: int = 0
    ) -> list[Array]:
        """Run a kernel on copies of `arrays` (None: a null address); return what is in them after. Raises `Refused`."""
        given = [np.zeros(0, np.uint8) if array is None else np.ascontiguousarray(array) for array in arrays]
        head = f"{kernel} {wave} {seed} {len(numbers)} {len(given)}\n"
        lines = f"{' '.join(repr(float(number)) for number in numbers)}\n{' '.join(str(a.nbytes) for a in given)}\n"
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None
        stdin.write((head + lines).encode() + b"".join(array.tobytes() for array in given))
        stdin.flush()
        answer = stdout.readline().decode().strip()
        if answer != "ok":
            raise Refused(answer or "the program died: see what a sanitizer wrote")
        return [np.frombuffer(stdout.read(array.nbytes), array.dtype).reshape(array.shape).copy() for array in given]
