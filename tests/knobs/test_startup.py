"""What a program says when it starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from strata_runtime.errors import UserError
from strata_runtime.knobs import resolve, startup_lines
from strata_runtime.knobs.info import KnobInfo
from strata_runtime.knobs.unknown import unknown_variables


def lines(knobs: tuple[KnobInfo, ...], environ: dict[str, str], **python: object) -> tuple[str, ...]:
    resolution = resolve(knobs, environ=environ, command_line={"pool.pin": "off"}, python=python)
    return startup_lines(resolution, version="1.2.3", target="cpu native", package="1f0c")


def test_one_line_names_version_target_package_and_what_is_not_at_its_default(knobs: tuple[KnobInfo, ...]) -> None:
    environ = {"STRATA_POOL_SPIN": "1ms", "STRATA_REL_FAST": "1", "STRATA_DEMO_COUNT": "3"}
    assert lines(knobs, environ, demo_memory=2**30) == (
        "strata 1.2.3 | cpu native | 1f0c | demo.memory=1GiB (Python), pool.pin=off (command line), "
        "pool.spin=1ms (environment), rel.depth=4 (implied), rel.fast=true (environment), rel.plan=true (implied), "
        "rel.timeout=50us (implied)",
    )


def test_at_the_defaults_nothing_follows_the_package(knobs: tuple[KnobInfo, ...]) -> None:
    resolution = resolve(knobs, environ={})
    assert startup_lines(resolution, version="1.2.3", target="cpu native", package="1f0c") == (
        "strata 1.2.3 | cpu native | 1f0c",
    )


def test_one_line_follows_for_each_value_that_was_not_taken(knobs: tuple[KnobInfo, ...]) -> None:
    environ = {"STRATA_REL_BELOW": "0.3", "STRATA_DEMO_LENIENT": "99", "STRATA_DEMO_WIDTH": "1", "STRATA_FOO": "1"}
    first, *rest = lines(knobs, environ)
    assert "rel.below" not in first
    assert [line.partition(" ")[2].partition(" ")[0].rstrip(":") for line in rest] == [
        "demo.lenient",
        "demo.width=1",
        "rel.below=0.3",
        "STRATA_FOO",
    ]


def test_an_unknown_variable_is_named_with_the_nearest(knobs: tuple[KnobInfo, ...]) -> None:
    assert unknown_variables(knobs, {"STRATA_POOL_THREDS": "4"}) == [
        "STRATA_POOL_THREDS: there is no such variable; did you mean 'STRATA_POOL_THREADS'?"
    ]


@pytest.mark.parametrize(
    "name",
    [
        "STRATA_SERVICE_HOST",
        "STRATA_SERVICE_PORT",
        "STRATA_PORT",
        "STRATA_PORT_8000_TCP",
        "STRATA_PORT_8000_TCP_ADDR",
        "STRATA_API_SERVICE_HOST",
        "STRATA_API_SERVICE_PORT_HTTP",
        "STRATA_API_PORT_8000_TCP_PROTO",
        "STRATA_GEN_CACHE",
        "STRATAGEM",
        "PATH",
    ],
)
def test_what_others_set_is_left_alone(knobs: tuple[KnobInfo, ...], name: str) -> None:
    assert unknown_variables(knobs, {name: "x"}) == []


def test_strict_refuses_unknown_variables_and_nothing_else(knobs: tuple[KnobInfo, ...], tmp_path: Path) -> None:
    strict = {"STRATA_CONFIG_STRICT": "1"}
    assert resolve(knobs, environ={**strict, "STRATA_PORT": "x"}).lines == ()
    with pytest.raises(UserError, match=r"STRATA_POOL_THREDS: .* did you mean 'STRATA_POOL_THREADS'\?"):
        resolve(knobs, environ={**strict, "STRATA_POOL_THREDS": "4"})
    config = tmp_path / "strata.toml"
    config.write_text("[config]\nstrict = true\n")
    with pytest.raises(UserError, match=r"config\.strict is on"):
        resolve(knobs, environ={"STRATA_POOL_THREDS": "4"}, config_file=config)
