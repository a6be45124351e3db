"""Progress: on terminals only, only for what takes long, and gone before anything else is said."""

import io

import pytest

from strata_runtime.cli import terminal
from strata_runtime.cli.terminal import Terminal


class Screen(io.StringIO):
    def isatty(self):
        return self.is_terminal


def watch(monkeypatch, is_terminal=True):
    """Put a screen in place of stderr. Not a fixture: pytest puts its own stderr in place after those."""
    screen = Screen()
    screen.is_terminal = is_terminal
    monkeypatch.setattr("sys.stderr", screen)
    return screen


@pytest.fixture
def clock(monkeypatch):
    """A clock that moves when told."""
    now = [0.0]
    monkeypatch.setattr(terminal, "monotonic", lambda: now[0])
    return now


def test_short_work_shows_nothing(monkeypatch, clock):
    screen = watch(monkeypatch)
    show = Terminal(quiet=False).progress("loading")
    for done in range(4):
        show(done, 3)
    assert screen.getvalue() == ""


def test_long_work_is_shown_and_replaced_by_what_is_said_next(monkeypatch, clock):
    screen = watch(monkeypatch)
    shown = Terminal(quiet=False)
    show = shown.progress("loading layer")
    clock[0] = 1.0
    show(3, 7)
    assert "loading layer 3/7" in screen.getvalue()
    shown.say("done")
    assert screen.getvalue().endswith("\r\x1b[Kdone\n")


def test_the_end_removes_progress(monkeypatch, clock):
    screen = watch(monkeypatch)
    show = Terminal(quiet=False).progress("loading")
    clock[0] = 1.0
    show(1, 2)
    show(2, 2)
    assert screen.getvalue().endswith("\r\x1b[K")


def test_progress_is_not_for_files_nor_for_the_quiet(monkeypatch):
    watch(monkeypatch)
    assert Terminal(quiet=True).progress("loading") is None
    watch(monkeypatch, is_terminal=False)
    assert Terminal(quiet=False).progress("loading") is None
