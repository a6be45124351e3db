"""Fuzzes the safetensors reader with atheris: `python tests/checkpoint/fuzz_safetensors.py CORPUS [libFuzzer options]`.

Needs the package atheris and the project's own on PYTHONPATH (runtime, tests). Whatever a file holds, reading it may
end in a `UserError` and in nothing else.
"""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports(include=["strata_runtime"]):
    from support.safetensors_files import exercise


def main() -> None:
    """Run until a finding, or until the options say to stop."""
    atheris.Setup(sys.argv, exercise)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
