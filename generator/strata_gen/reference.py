"""Files of the checkout that are made from the specs and committed: reference pages, and the types of settings."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from strata_gen.model.specset import SpecSet
from strata_gen.paths import templates_root
from strata_gen.render import banner, make_environment, view_fields
from strata_gen.views import family_page, format_page, kernel_page, knobs_reference, protocol_page, target_page
from strata_gen.write import write_atomically


@dataclass(frozen=True, slots=True)
class ReferencePage:
    """One file: its path in the project, with forward slashes, and its text for a set of specs."""

    path: str
    text: Callable[[SpecSet], str]


def templated(
    path: str, template: str, view: Callable[[SpecSet], Any], sources: Callable[[SpecSet], Iterable[str]]
) -> ReferencePage:
    """Return a page that renders `template` with the view's fields; `sources` names spec files for the banner."""

    def text(specs: SpecSet) -> str:
        context = {"banner": banner(path, template, sources(specs)), **view_fields(view(specs))}
        return make_environment(templates_root()).get_template(template).render(context)

    return ReferencePage(path, text)


REFERENCE_PAGES: tuple[ReferencePage, ...] = (
    templated("docs/reference/knobs.md", "knobs.md.j2", knobs_reference.page_view, knobs_reference.page_sources),
    templated(
        "runtime/strata_runtime/_settings.pyi",
        "settings.pyi.j2",
        knobs_reference.stub_view,
        knobs_reference.stub_sources,
    ),
    templated("docs/reference/targets.md", target_page.PAGE_TEMPLATE, target_page.page_view, target_page.page_sources),
    templated(
        "docs/reference/families.md",
        family_page.PAGE_TEMPLATE,
        lambda specs: family_page.families_page(specs.families),
        lambda specs: (family.span.file for family in specs.families),
    ),
    templated("docs/reference/formats.md", format_page.PAGE_TEMPLATE, format_page.page_view, format_page.page_sources),
    templated(
        "docs/reference/protocol.md", protocol_page.PAGE_TEMPLATE, protocol_page.page_view, protocol_page.page_sources
    ),
    templated("docs/reference/kernels.md", kernel_page.PAGE_TEMPLATE, kernel_page.page_view, kernel_page.page_sources),
)


def stale_pages(specs: SpecSet, root: Path, pages: Iterable[ReferencePage] = REFERENCE_PAGES) -> dict[str, str]:
    """Return path and wanted text of every page that is missing under `root` or reads otherwise."""
    wanted = {page.path: page.text(specs) for page in pages}
    return {path: text for path, text in wanted.items() if _read(root / path) != text}


def write_pages(pages: dict[str, str], root: Path) -> None:
    """Write texts by path under `root`."""
    for path, text in pages.items():
        write_atomically(root / path, text.encode())


def _read(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None
