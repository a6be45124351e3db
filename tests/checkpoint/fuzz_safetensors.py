"""Fuzzes the reader of safetensors with atheris: `python tests/checkpoint/fuzz_safetensors.py CORPUS [options]`.

Needs the package atheris and the project's own on PYTHONPATH (generator, runtime, tests); the options are libFuzzer's.
Whatever the files hold, reading them, up to config and weights, may end in a `UserError` and in nothing else.
"""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports(include=["strata_runtime"]):
    from support.whole_models import exercise_folder


def main() -> None:
    """Run until a finding, or until the options say to stop."""
    atheris.Setup(sys.argv, exercise_folder)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
