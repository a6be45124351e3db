"""`docs/reference/targets.md`."""

from __future__ import annotations

import re

import pytest

from strata_gen.model.specset import SpecSet
from strata_gen.model.target import Feature
from strata_gen.reference import REFERENCE_PAGES
from strata_gen.views.target_page import page_view


@pytest.fixture(scope="module")
def page(specs: SpecSet) -> str:
    (found,) = (page for page in REFERENCE_PAGES if page.path == "docs/reference/targets.md")
    return found.text(specs)


def test_every_target_has_a_row_with_its_package(specs: SpecSet, page: str) -> None:
    for target in specs.targets:
        assert re.search(
            rf"^\| `{re.escape(target.name)}` \| .*`strata_kernels_{target.backend}_\w+` \|", page, re.MULTILINE
        )


def test_every_source_is_listed_and_cited(specs: SpecSet, page: str) -> None:
    sources = page_view(specs).sources
    body, listed = page.split("## Sources\n")
    assert {f"{source.number}. {source.text}" for source in sources} == set(listed.strip().splitlines())
    assert {int(number) for number in re.findall(r"\[(\d+)\]", body)} == {source.number for source in sources}


def test_every_feature_is_explained(page: str) -> None:
    assert all(f"- `{feature}`: " in page for feature in Feature)


def test_denied_compilers_are_told_with_their_reason(page: str) -> None:
    assert re.search(r"`sm_120`: 13\.2\.51 to 13\.2\.78 refused: .*miscompile", page)
