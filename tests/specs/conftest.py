"""Spec folders made for one test, and the command line without a process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from strata_gen.cli.main import group

ENTRY = """\
knobs:
  - name: {name}
    type: int
    default: 0
    affects: runtime
    output: identical
    help: Something to set.
"""


@pytest.fixture
def spec_root(tmp_path: Path) -> Callable[..., Path]:
    """Write files, given as path inside the folder to text, into a spec folder named `specs`."""

    def make(files: dict[str, str | bytes], folder: str = "specs") -> Path:
        root = tmp_path / folder
        for name, content in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        return root

    return make


@pytest.fixture
def strata_gen() -> Callable[..., Result]:
    """Run `strata-gen ARGUMENTS` in this process."""

    def run(*arguments: str | Path) -> Result:
        return CliRunner().invoke(group, [str(argument) for argument in arguments], prog_name="strata-gen")

    return run


@pytest.fixture
def entry() -> Callable[[str], str]:
    """Text of a knob file with one right entry."""
    return lambda name: ENTRY.format(name=name)
