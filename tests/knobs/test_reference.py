"""Committed files that are made from the specs, and the check that they are current."""

from __future__ import annotations

import shutil
from pathlib import Path

from click.testing import CliRunner

from strata_gen.cli.main import group
from strata_gen.model.specset import SpecSet
from strata_gen.paths import project_root, specs_root
from strata_gen.reference import REFERENCE_PAGES, stale_pages
from strata_gen.specs import load_specs


def reference(*arguments: str | Path) -> tuple[int, str]:
    result = CliRunner().invoke(group, ["reference", *map(str, arguments)])
    return result.exit_code, result.output


def test_the_checkout_is_current() -> None:
    assert reference("--check") == (0, "")


def test_writing_makes_current_and_writes_only_what_changed(tmp_path: Path) -> None:
    assert reference("--check", "--out", tmp_path)[0] == 1
    exit_code, output = reference("--out", tmp_path)
    assert (exit_code, sorted(output.splitlines())) == (0, sorted(f"wrote {page.path}" for page in REFERENCE_PAGES))
    assert reference("--check", "--out", tmp_path) == (0, "")
    assert reference("--out", tmp_path) == (0, "")


def test_the_check_names_stale_files_and_how_to_mend(tmp_path: Path) -> None:
    reference("--out", tmp_path)
    page = tmp_path / "docs/reference/knobs.md"
    page.write_text(page.read_text() + "by hand\n")
    exit_code, output = reference("--check", "--out", tmp_path)
    assert exit_code == 1
    assert output.splitlines() == [
        "stale: docs/reference/knobs.md",
        "run 'strata-gen reference' and commit what it writes",
    ]
    assert page.read_text().endswith("by hand\n")


def test_a_changed_spec_makes_its_pages_stale(tmp_path: Path) -> None:
    root = tmp_path / "specs"
    shutil.copytree(specs_root(), root)
    pool = root / "knobs" / "pool.yaml"
    pool.write_text(pool.read_text().replace("default: 50us", "default: 60us"))
    stale = stale_pages(load_specs([root]), project_root())
    assert set(stale) == {"docs/reference/knobs.md", "runtime/strata_runtime/_settings.pyi"}


def test_every_knob_has_a_row_and_a_part(knob_specs: SpecSet) -> None:
    text = next(page for page in REFERENCE_PAGES if page.path.endswith("knobs.md")).text(knob_specs)
    for knob in knob_specs.knobs:
        assert text.count(f"| [`{knob.name}`](#{knob.anchor}) |") == 1
        assert text.count(f'<a id="{knob.anchor}"></a>\n\n### `{knob.name}`\n') == 1
        assert knob.help in text


def test_relations_are_told_in_the_reference(knob_specs: SpecSet) -> None:
    text = next(page for page in REFERENCE_PAGES if page.path.endswith("knobs.md")).text(knob_specs)
    for fact in (
        '- Requires `rel.drafter != "none"`: something has to draft.',
        "- Conflicts with `rel.remote`: drafts are not sent to remote stages.",
        '- Ignored, with one line, unless `rel.defer != "0"`.',
        "- Turned off, with one line, while `rel.plan and rel.slots >= 4`: device plan: every row joins late.",
        "- While `rel.fast and not rel.remote`, `rel.timeout` defaults to `50us`.",
    ):
        assert fact in text
