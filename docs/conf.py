"""The documentation as a site: `make docs` writes it to build/docs."""

from __future__ import annotations

import tomllib
from pathlib import Path

_PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]

project = _PROJECT["name"]
release = _PROJECT["version"]
extensions = ["myst_parser"]
html_theme = "furo"
html_title = f"{project} {release}"
html_copy_source = False
nitpicky = True
# Headings are linked to as GitHub names them, down to the entries of reference pages.
myst_heading_anchors = 4
