"""`foresee`: what a build would do, without doing it, and right."""

from __future__ import annotations

from pathlib import Path

import pytest

from strata_gen.cache import ArtifactCache, cache_root
from strata_gen.foresee import Foresight, explain_key, foresee
from strata_gen.progress import Reporter
from strata_gen.record import BuildRecord, estimate
from support.small_project import Builds, SmallProject, environment

ANSWER, BINDINGS = "runtime/src/answer.cpp", "runtime/src/bindings.cpp"
LEVEL = "src/levels/avx512vnni/vector_bytes.cpp"


@pytest.fixture
def look(small: SmallProject, tmp_path: Path, reporter: Reporter):
    def look(set_values: dict[str, str] | None = None, out: Path | None = None, **extra: str) -> Foresight:
        return foresee(small.tree(set_values), small.layout(out), environment(tmp_path / "home", **extra), reporter)

    return look


def reasons(seen: Foresight) -> dict[str, tuple[str, ...]]:
    return {row.source: row.because for row in seen.recompiled}


def snapshot(folder: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in folder.rglob("*")}


def test_before_the_first_build_everything_is_new(look, small: SmallProject, tmp_path: Path) -> None:
    seen = look()
    assert seen.state == "to build"
    assert reasons(seen) == dict.fromkeys((ANSWER, BINDINGS, LEVEL), ("first build",))
    assert "sources.cmake" in seen.changes.new
    assert not (small.root / "build").exists() and not (tmp_path / "home").exists()


def test_after_a_build_nothing_would_happen(look, run_build: Builds) -> None:
    key = run_build().key
    seen = look()
    assert (seen.key, seen.state, seen.changes.written, seen.recompiled) == (key, "up to date", (), ())


def test_planning_writes_nothing(look, run_build: Builds, small: SmallProject) -> None:
    run_build()
    small.source.write_text(small.source.read_text() + "\n")
    before = snapshot(small.root / "build")
    look()
    assert snapshot(small.root / "build") == before


def test_the_reason_is_the_input_that_changed(look, run_build: Builds, small: SmallProject) -> None:
    run_build()
    small.header.write_text(small.header.read_text().replace("42", "41"))
    header = "runtime/include/strata/answer.hpp"
    assert reasons(look()) == dict.fromkeys((ANSWER, BINDINGS, LEVEL), (header,))


def test_a_knob_names_the_header_that_it_changes(look, run_build: Builds) -> None:
    run_build()
    seen = look({"window.max_tokens": "16"})
    assert reasons(seen) == {BINDINGS: ("include/strata/gen/limits.hpp",)}
    built = run_build(set_values={"window.max_tokens": "16"})
    assert built.compiled == tuple(reasons(seen)) and built.key == seen.key


def test_flags_of_one_level_recompile_that_level(look, run_build: Builds, small: SmallProject) -> None:
    run_build()
    cpu = small.root / "specs/targets/cpu.yaml"
    cpu.write_text(
        cpu.read_text().replace("[-march=x86-64-v4, -mavx512vnni,", "[-march=x86-64-v4, -mfma, -mavx512vnni,")
    )
    seen = look()
    assert reasons(seen) == {LEVEL: ("its flags changed",)}
    assert run_build().compiled == (LEVEL,)


def test_other_user_flags_recompile_everything(look, run_build: Builds) -> None:
    run_build()
    assert set(reasons(look(CXXFLAGS="-DX")).values()) == {("flags or folders changed",)}


def test_a_key_in_the_cache_compiles_nothing(look, run_build: Builds, tmp_path: Path) -> None:
    run_build()
    seen = look(out=tmp_path / "elsewhere")
    assert (seen.state, seen.recompiled) == ("cached", ())


def test_time_and_size_are_predicted_from_what_was_built_on_this_machine(
    look, run_build: Builds, small: SmallProject
) -> None:
    first = look().estimate
    assert (first.measured, first.sources) == (0, 3)
    size = next(run_build().path.glob("_native*.so")).stat().st_size
    small.header.write_text(small.header.read_text() + "\n")
    again = look().estimate
    assert (again.measured, again.sources, again.module_bytes) == (3, 3, size)
    assert 0 < again.seconds < 60


def test_what_is_there_already_is_predicted_to_take_nothing(look, run_build: Builds) -> None:
    run_build()
    assert look().estimate is None


def test_a_kind_of_source_that_was_never_built_takes_as_long_as_its_like() -> None:
    record = BuildRecord("p", {}, {"a.cpp": 2.0, "b.cpp": 4.0}, 1000)
    guessed = estimate("p", ["a.cpp", "new.cpp", "x.cu"], ["a.cpp", "new.cpp"], [record], jobs=1)
    assert (guessed.seconds, guessed.measured, guessed.module_bytes) == (5.0, 1, 1000)
    both = estimate("other", ["a.cpp"], ["a.cpp", "b.cpp"], [record], jobs=8)
    assert both.seconds == 4.0  # never less than the longest
    assert both.module_bytes != 1000


def test_why_names_the_parts_of_the_key_that_differ(run_build: Builds, small: SmallProject, tmp_path: Path) -> None:
    environ = environment(tmp_path / "home")
    cache = ArtifactCache(cache_root(environ))
    assert "neither is another build of this target" in explain_key(small.tree(), cache, environ).render()
    key = run_build().key
    assert explain_key(small.tree(), cache, environ).cached
    small.header.write_text(small.header.read_text() + "\n")
    found = explain_key(small.tree({"window.max_tokens": "4"}), cache, environ)
    assert (found.cached, found.nearest) == (False, key)
    assert found.differs == ("include/strata/gen/limits.hpp", "runtime/include/strata/answer.hpp")
    flags = explain_key(small.tree(), cache, {**environ, "CXXFLAGS": "-g0"})
    assert flags.differs == ("compiler flags", "runtime/include/strata/answer.hpp")
