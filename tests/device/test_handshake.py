"""Publish, wait and take the rows, against a host thread."""

from __future__ import annotations

from pathlib import Path

import pytest

from strata_gen.paths import runtime_root
from support.device import generated_sources
from support.native_programs import Unit, compile_program, run_program

HERE = Path(__file__).parent


@pytest.mark.parametrize("sanitizer", ["thread", "address,undefined"])
def test_a_host_thread_answers_round_after_round(tmp_path: Path, sanitizer: str) -> None:
    includes = (generated_sources(tmp_path) / "include", runtime_root() / "include")
    program = compile_program("handshake", [Unit(HERE / "host" / "handshake.cpp")], includes, sanitizer)
    assert run_program(program, "3000").strip() == "3000 rounds"
