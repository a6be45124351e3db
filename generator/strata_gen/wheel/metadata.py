"""The text of METADATA (core metadata 2.4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

LICENSE = "Apache-2.0"
LICENSE_FILE = "LICENSE"
REQUIRES_PYTHON = ">=3.11"


def metadata_text(
    name: str,
    version: str,
    summary: str,
    requires: Sequence[str],
    extras: Mapping[str, Sequence[str]] | None = None,
    description: str = "",
) -> bytes:
    """Return METADATA of a distribution; `requires` are requirements as pip reads them, `extras` those by extra."""
    lines = ["Metadata-Version: 2.4", f"Name: {name}", f"Version: {version}", f"Summary: {summary}"]
    lines += [f"License-Expression: {LICENSE}", f"License-File: {LICENSE_FILE}", f"Requires-Python: {REQUIRES_PYTHON}"]
    lines += [f"Requires-Dist: {requirement}" for requirement in requires]
    for extra, further in (extras or {}).items():
        lines.append(f"Provides-Extra: {extra}")
        lines += [f"Requires-Dist: {requirement}; extra == '{extra}'" for requirement in further]
    lines += ["Description-Content-Type: text/markdown", "", description] if description else [""]
    return "\n".join(lines).encode()
