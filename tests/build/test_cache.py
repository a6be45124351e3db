"""The artifact cache: whole packages only, the least recently used go first."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from strata_gen.artifact import damage, put_in_place, seal
from strata_gen.cache import ArtifactCache, CacheEntry, age, cache_root, open_cache
from strata_gen.progress import Reporter


@pytest.fixture
def package(tmp_path: Path) -> Path:
    return make_package(tmp_path / "made" / "strata_kernels_cpu_x")


def make_package(folder: Path, size: int = 1000) -> Path:
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    (folder / "_native.so").write_bytes(b"x" * size)
    seal(folder, {"key": "k"})
    return folder


@pytest.fixture
def cache(tmp_path: Path) -> ArtifactCache:
    return ArtifactCache(tmp_path / "cache")


def test_what_is_stored_is_found_whole(cache: ArtifactCache, package: Path, reporter: Reporter) -> None:
    assert cache.find("k1", package.name, reporter) is None
    cache.store("k1", package)
    found = cache.find("k1", package.name, reporter)
    assert found is not None and damage(found) is None
    assert (found / "_native.so").read_bytes() == (package / "_native.so").read_bytes()


@pytest.mark.parametrize("harm", ["truncate", "remove", "flip", "manifest"])
def test_a_damaged_entry_is_moved_aside_with_one_line(
    cache: ArtifactCache, package: Path, reporter: Reporter, said: io.StringIO, harm: str
) -> None:
    cache.store("k1", package)
    module = cache.artifacts / "k1" / package.name / "_native.so"
    match harm:
        case "truncate":
            os.truncate(module, 10)
        case "remove":
            module.unlink()
        case "flip":
            module.write_bytes(b"y" * 1000)
        case "manifest":
            (module.parent / "manifest.json").write_text("{")
    assert cache.find("k1", package.name, reporter) is None
    assert len(said.getvalue().splitlines()) == 1 and "damaged" in said.getvalue()
    assert not (cache.artifacts / "k1").exists()
    assert len(list(cache.damaged.iterdir())) == 1
    cache.store("k1", package)
    assert cache.find("k1", package.name, reporter) is not None


def test_a_manifest_that_was_changed_is_damage(package: Path) -> None:
    manifest = package / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"key": "', '"key": "f'))
    assert damage(package) == "manifest.json is not what was built"


def test_the_least_recently_used_go_first(tmp_path: Path, reporter: Reporter) -> None:
    cache = ArtifactCache(tmp_path / "cache", budget=5000)
    for number in range(3):
        cache.store(f"k{number}", make_package(tmp_path / f"p{number}" / "strata_kernels_cpu_x", size=1000))
        os.utime(cache.artifacts / f"k{number}", (number, number))
    assert cache.find("k0", "strata_kernels_cpu_x", reporter) is not None  # now the most recently used
    cache.store("k3", make_package(tmp_path / "p3" / "strata_kernels_cpu_x", size=3000))
    assert [entry.key for entry in cache.entries()] == ["k3", "k0"]


def test_one_entry_beyond_the_budget_is_still_stored(tmp_path: Path, package: Path) -> None:
    cache = ArtifactCache(tmp_path / "cache", budget=10)
    cache.store("k1", package)
    assert [entry.key for entry in cache.entries()] == ["k1"]


def test_clearing_frees_everything(cache: ArtifactCache, package: Path) -> None:
    cache.store("k1", package)
    assert cache.clear() > 1000
    assert cache.entries() == ()


@pytest.mark.parametrize(
    ("environ", "root"),
    [
        ({"XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/x/strata-gen"),
        ({"XDG_CACHE_HOME": "", "HOME": "/h"}, "/h/.cache/strata-gen"),
        ({"XDG_CACHE_HOME": "relative", "HOME": "/h"}, "/h/.cache/strata-gen"),
    ],
)
def test_the_cache_lies_where_the_desktop_standard_says(environ: dict[str, str], root: str) -> None:
    assert cache_root(environ) == Path(root)


def test_an_unwritable_cache_is_one_line(reporter: Reporter, said: io.StringIO) -> None:
    assert open_cache({"HOME": "/dev/null"}, reporter) is None
    assert said.getvalue().count("\n") == 1 and "cannot be written" in said.getvalue()


def test_replacing_a_package_leaves_open_files_readable(tmp_path: Path, package: Path) -> None:
    destination = tmp_path / "package" / package.name
    put_in_place(package, destination)
    with (destination / "_native.so").open("rb") as held:
        put_in_place(make_package(tmp_path / "other" / package.name, size=5), destination)
        assert len(held.read()) == 1000
    assert (destination / "_native.so").stat().st_size == 5
    assert [path.name for path in destination.parent.iterdir()] == [package.name]


def test_ages_read_well() -> None:
    entry = CacheEntry("k", "p", 1, used=1000.0)
    assert [age(entry, 1000.0 + seconds) for seconds in (5, 120, 7200, 200000)] == ["5 s", "2 min", "2 h", "2 d"]
