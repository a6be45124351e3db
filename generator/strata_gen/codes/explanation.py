"""What `strata-gen explain` says of one code."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

WIDTH = 100
"""Characters of a line of explanation."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """One error code: a title, a paragraph on why it is an error, and an excerpt before and after mending."""

    code: str
    title: str
    text: str
    wrong: str
    right: str

    def render(self) -> str:
        """Return the whole explanation as text for a terminal."""
        wrong, right = ("\n".join(f"    {line}" for line in part.splitlines()) for part in (self.wrong, self.right))
        text = textwrap.fill(self.text, WIDTH, break_on_hyphens=False)
        return f"{self.code}: {self.title}\n\n{text}\n\nWrong:\n\n{wrong}\n\nRight:\n\n{right}"
