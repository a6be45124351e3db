"""The C++ compiler that a build would take."""

from __future__ import annotations

import os
from functools import cache

import pytest

from strata_gen.errors import GeneratorError
from strata_gen.toolchain import find_toolchain


@cache
def compiler_words() -> tuple[str, ...]:
    """The words that begin a compiler's command, its launcher among them. Skips the test without a compiler."""
    try:
        tool = find_toolchain(os.environ)
    except GeneratorError as problem:
        pytest.skip(str(problem))
    return (*((tool.launcher,) if tool.launcher else ()), str(tool.compiler))
