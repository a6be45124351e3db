"""The config file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from strata_runtime import __version__
from strata_runtime.errors import UserError
from strata_runtime.knobs import Resolution, resolve
from strata_runtime.knobs.info import KnobInfo


def read(knobs: tuple[KnobInfo, ...], folder: Path, text: str) -> Resolution:
    path = folder / "strata.toml"
    path.write_text(text, encoding="utf-8")
    return resolve(knobs, environ={}, config_file=path)


def test_values_of_every_type(knobs: tuple[KnobInfo, ...], tmp_path: Path) -> None:
    text = """
    [demo]
    flag = true
    count = 12
    share = 0.25
    mode = "check"
    title = "a title"
    memory = "1GiB"
    reserve = 4096
    wait = "1.5s"
    folder = "/models"
    words = ["a", "b"]
    """
    values = read(knobs, tmp_path, text).values
    expected = (True, 12, 0.25, "check", "a title", 2**30, 4096, 1_500_000_000, "/models", ("a", "b"))
    names = ("flag", "count", "share", "mode", "title", "memory", "reserve", "wait", "folder", "words")
    assert tuple(values[f"demo.{name}"] for name in names) == expected


def test_the_file_is_remembered(knobs: tuple[KnobInfo, ...], tmp_path: Path) -> None:
    resolution = read(knobs, tmp_path, "[pool]\nthreads = 3\n")
    assert str(resolution.sources["pool.threads"]) == f"config file {tmp_path / 'strata.toml'}"


@pytest.mark.parametrize("source", ["environ", "command_line", "python"])
def test_a_knob_names_the_file(knobs: tuple[KnobInfo, ...], tmp_path: Path, source: str) -> None:
    named, other = tmp_path / "named.toml", tmp_path / "other.toml"
    named.write_text("[pool]\nthreads = 3\n")
    other.write_text("[pool]\nthreads = 9\n")
    given = {
        "environ": {"STRATA_CONFIG_FILE": str(named)} if source == "environ" else {},
        "command_line": {"config.file": str(named)} if source == "command_line" else {},
        "python": {"config_file": named} if source == "python" else {},
    }
    assert resolve(knobs, config_file=other, **given).values["pool.threads"] == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[pool]\nthread = 3\n", rf"unknown key 'thread' in section \[pool\] \(this is strata {__version__}\); did you mean 'threads'\?"),  # noqa: E501
        ("[poll]\nthreads = 3\n", rf"unknown section 'poll' \(this is strata {__version__}\); did you mean 'pool'\?"),
        ("threads = 3\n", r"unknown section 'threads'"),
        ("pool = 3\n", r"'pool' must be a table: write \[pool\]"),
        ("[pool]\nthreads = 'x'\n", r"pool\.threads: 'x' is not a whole number \(config file .*strata\.toml\)"),
        ("[pool]\nthreads = 1.5\n", r"pool\.threads: '1\.5' is not a whole number"),
        ("[pool]\nthreads = true\n", r"pool\.threads: 'true' is not a whole number"),
        ("[pool]\nthreads = [1]\n", r"strata\.toml: pool\.threads: \[1\] is not a value for a knob of type int"),
        ("[pool]\nthreads = 1979-05-27\n", r"strata\.toml: pool\.threads: .* is not a value for a knob of type int"),
        ("[pool.threads]\nx = 1\n", r"strata\.toml: pool\.threads: \{'x': 1\} is not a value"),
        ("[pool]\nspin = 50\n", r"pool\.spin: '50' is not a duration"),
        ("[demo]\nshare = nan\n", r"demo\.share: 'nan' is not a decimal number"),
        ("[demo]\ntitle = ['a']\n", r"demo\.title: \['a'\] is not a value"),
        ("[config]\nfile = 'other.toml'\n", r"a config file cannot name another one: remove 'config\.file'"),
        ("[pool\n", r"strata\.toml is not valid TOML: "),
        pytest.param("[pool]\nthreads = " + "[" * 100_000, r"strata\.toml is not valid TOML: ", id="deep"),
        pytest.param("[pool]\nthreads = " + "9" * 5000, r"strata\.toml is not valid TOML: ", id="long"),
        ("[pool]\nthreads = " + "9" * 400, r"pool\.threads: a whole number of .* bits does not fit"),
        ("[pool]\nthreads = 1\nthreads = 2\n", r"is not valid TOML: "),
    ],
)  # fmt: skip
def test_a_bad_file(knobs: tuple[KnobInfo, ...], tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        read(knobs, tmp_path, text)


def test_a_file_that_cannot_be_read(knobs: tuple[KnobInfo, ...], tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"config file .*gone\.toml cannot be read: No such file or directory"):
        resolve(knobs, environ={"STRATA_CONFIG_FILE": str(tmp_path / "gone.toml")})
    with pytest.raises(UserError, match="cannot be read: Is a directory"):
        resolve(knobs, environ={}, config_file=tmp_path)
    path = tmp_path / "strata.toml"
    path.write_bytes(b"\xff")
    with pytest.raises(UserError, match="is not UTF-8 text: byte 0"):
        resolve(knobs, environ={}, config_file=path)


@pytest.mark.parametrize("content", [b"\xef\xbb\xbf[demo]\ncount = 12\n", b"[demo]\r\ncount = 12\r\n"])
def test_what_editors_elsewhere_write_is_read(knobs: tuple[KnobInfo, ...], tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "strata.toml"
    path.write_bytes(content)
    assert resolve(knobs, environ={}, config_file=path).values["demo.count"] == 12


def test_a_file_that_is_too_large_is_refused(knobs: tuple[KnobInfo, ...], tmp_path: Path) -> None:
    path = tmp_path / "strata.toml"
    path.write_bytes(b"#" * ((1 << 20) + 1))
    with pytest.raises(UserError, match=r"strata.toml is larger than 1.0 MiB"):
        resolve(knobs, environ={}, config_file=path)


def test_a_device_without_an_end_and_a_pipe_without_a_writer_are_refused(
    knobs: tuple[KnobInfo, ...], tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(UserError, match=f"{path}: not a file but a pipe or a device"):
            resolve(knobs, environ={}, config_file=path)
