"""Reads what Markdown pages tell their readers to do: fenced blocks, commands, links."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

_FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LISTING = re.compile(r"^```\{code-block\} \w+\n:caption: (\S+)\n\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
_ASSIGNMENT = re.compile(r"^[A-Z_]+=")


@dataclass(frozen=True, slots=True)
class Command:
    """One shell command of a page: its variables, and its words."""

    variables: dict[str, str]
    words: tuple[str, ...]

    def __str__(self) -> str:
        return shlex.join(self.words)

    @property
    def options(self) -> list[str]:
        """The options among its words, without values."""
        return [word.partition("=")[0] for word in self.words[1:] if word.startswith("-") and len(word) > 1]


def blocks(page: Path, language: str) -> list[str]:
    """Return the fenced blocks of one language; "" for those without."""
    text = page.read_text(encoding="utf-8")
    return [body for found, body in _FENCE.findall(text) if found == language]


def listings(page: Path) -> dict[str, str]:
    """Return the files that a page shows: their text by path, which is the block's caption."""
    return dict(_LISTING.findall(page.read_text(encoding="utf-8")))


def commands(page: Path) -> list[Command]:
    """Return the commands of every `sh` block, comments left out, continued lines joined."""
    found = []
    for block in blocks(page, "sh"):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            variables = {}
            while words and _ASSIGNMENT.match(words[0]):
                name, _, value = words.pop(0).partition("=")
                variables[name] = value
            if words:
                found.append(Command(variables, tuple(words)))
    return found


def links(page: Path) -> list[Path]:
    """Return the files that a page links to, by relative path."""
    targets = _LINK.findall(page.read_text(encoding="utf-8"))
    return [page.parent / target for target in targets if "://" not in target]
