"""Fuzzes the GGUF reader with atheris: `python tests/gguf/fuzz_gguf.py CORPUS [libFuzzer options]`.

Needs the package atheris and the project's own on PYTHONPATH (generator, runtime, tests). Whatever a file holds,
reading it, up to weights, tokenizer and chat template, may end in a `UserError` and in nothing else.
"""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports(include=["strata_runtime"]):
    from support.whole_models import exercise_gguf


def main() -> None:
    """Run until a finding, or until the options say to stop."""
    atheris.Setup(sys.argv, exercise_gguf)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
