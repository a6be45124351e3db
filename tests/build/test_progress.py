"""Progress: never silent for long, and quiet when something was just said."""

from __future__ import annotations

import io
import time

from strata_gen.progress import Reporter


def test_a_silent_step_speaks_after_the_first_wait_and_then_regularly() -> None:
    said = io.StringIO()
    with Reporter(said, first_s=0.1, every_s=0.2).step(lambda: "compiling"):
        time.sleep(0.65)
    lines = said.getvalue().splitlines()
    assert 2 <= len(lines) <= 3
    assert lines[0] == "compiling (0 s)"


def test_a_short_step_says_nothing() -> None:
    said = io.StringIO()
    with Reporter(said, first_s=0.2).step(lambda: "compiling"):
        pass
    assert said.getvalue() == ""


def test_lines_of_the_work_itself_are_enough() -> None:
    said = io.StringIO()
    reporter = Reporter(said, first_s=0.3, every_s=0.3)
    with reporter.step(lambda: "compiling"):
        for number in range(6):
            reporter.say(f"file {number}")
            time.sleep(0.1)
    assert "compiling" not in said.getvalue()


def test_the_step_can_say_how_far_it_is() -> None:
    said = io.StringIO()
    at = "[0/9]"
    with Reporter(said, first_s=0.05, every_s=0.2).step(lambda: f"{at} compiling"):
        time.sleep(0.1)
        at = "[5/9]"
        time.sleep(0.25)
    assert [line.split()[0] for line in said.getvalue().splitlines()][:2] == ["[0/9]", "[5/9]"]
