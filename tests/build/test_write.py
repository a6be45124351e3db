"""The writer: content decides, mtimes follow, nobody else's files are touched."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from strata_gen.emitter import GeneratedFile
from strata_gen.errors import GeneratorError
from strata_gen.write import TreeChanges, compare_tree, write_tree


def files(**texts: str) -> tuple[GeneratedFile, ...]:
    return tuple(
        GeneratedFile(name.replace("__", "/") + ".hpp", text, ("specs/a.yaml",), template="a.hpp.j2")
        for name, text in texts.items()
    )


def write(tree: Path, generated: tuple[GeneratedFile, ...]) -> TreeChanges:
    return write_tree(tree, generated, "cpu native", "0" * 64)


def test_everything_is_new_at_first(tmp_path: Path) -> None:
    changes = write(tmp_path / "tree", files(a="1", src__b="2"))
    assert changes.new == ("a.hpp", "src/b.hpp")
    assert (tmp_path / "tree/src/b.hpp").read_text() == "2"


def test_an_unchanged_file_keeps_its_mtime_and_inode(tmp_path: Path) -> None:
    write(tmp_path, files(a="1", b="2"))
    before = {name: (tmp_path / name).stat() for name in ("a.hpp", "b.hpp", "manifest.json")}
    changes = write(tmp_path, files(a="1", b="2"))
    assert changes.written == ()
    for name, stat in before.items():
        after = (tmp_path / name).stat()
        assert (after.st_mtime_ns, after.st_ino) == (stat.st_mtime_ns, stat.st_ino), name


def test_only_what_changed_is_written(tmp_path: Path) -> None:
    write(tmp_path, files(a="1", b="2"))
    kept = (tmp_path / "a.hpp").stat().st_ino
    changes = write(tmp_path, files(a="1", b="3"))
    assert (changes.changed, changes.unchanged) == (("b.hpp",), ("a.hpp",))
    assert (tmp_path / "a.hpp").stat().st_ino == kept


def test_what_nobody_emits_any_more_is_removed_with_its_empty_folder(tmp_path: Path) -> None:
    write(tmp_path, files(a="1", src__gen__b="2"))
    changes = write(tmp_path, files(a="1"))
    assert changes.removed == ("src/gen/b.hpp",)
    assert not (tmp_path / "src").exists()


def test_a_file_of_the_user_stays_and_is_named(tmp_path: Path) -> None:
    write(tmp_path, files(src__a="1"))
    (tmp_path / "src/mine.txt").write_text("notes")
    changes = write(tmp_path, files(b="1"))
    assert changes.foreign == ("src/mine.txt",)
    assert (tmp_path / "src/mine.txt").read_text() == "notes"


def test_an_edited_output_is_put_right(tmp_path: Path) -> None:
    write(tmp_path, files(a="1"))
    (tmp_path / "a.hpp").write_text("edited")
    assert write(tmp_path, files(a="1")).changed == ("a.hpp",)
    assert (tmp_path / "a.hpp").read_text() == "1"


def test_the_manifest_says_where_each_file_is_from(tmp_path: Path) -> None:
    copied = GeneratedFile("runtime/src/pool.cpp", "int x;", (), origin="runtime/src/pool.cpp")
    write(tmp_path, (*files(a="1"), copied))
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert manifest["specs_sha256"] == "0" * 64
    assert manifest["files"]["a.hpp"]["template"] == "a.hpp.j2"
    assert manifest["files"]["a.hpp"]["sources"] == ["specs/a.yaml"]
    assert manifest["files"]["runtime/src/pool.cpp"]["origin"] == "runtime/src/pool.cpp"


@pytest.mark.parametrize("manifest", ["", "[]", "{", '{"files": 3}', '{"files": {"../../outside.txt": {}}}'])
def test_a_damaged_manifest_removes_nothing(tmp_path: Path, manifest: str) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text("keep")
    tree = tmp_path / "a/tree"
    write(tree, files(a="1"))
    (tree / "manifest.json").write_text(manifest)
    (tree / "b.hpp").write_text("whose?")
    changes = write(tree, files(a="1"))
    assert changes.removed == () and changes.foreign == ("b.hpp",)
    assert outside.read_text() == "keep"


def test_comparing_writes_nothing(tmp_path: Path) -> None:
    changes = compare_tree(tmp_path / "tree", files(a="1"))
    assert changes.new == ("a.hpp",)
    assert not (tmp_path / "tree").exists()


def test_a_folder_that_cannot_be_written_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(GeneratorError) as caught:
        write(tmp_path / "file/tree", files(a="1"))
    assert "cannot write the generated files" in caught.value.render()
    assert "--out DIR" in caught.value.render()
