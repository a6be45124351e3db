"""The target files of one backend as one: a target may extend a base of any of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from strata_gen.diagnostics import Span
from strata_gen.edge.target_edge import LevelEdge, SourceEdge, TargetEdge, TargetFile
from strata_gen.load.document import DataPath, Document, Key
from strata_gen.model.target import Backend


@dataclass(frozen=True)
class TargetFiles:
    """Files of the same backend with their documents; paths count targets and levels through all files."""

    parts: Sequence[tuple[TargetFile, Document]]

    @property
    def backend(self) -> Backend:
        """What all files are for."""
        return self.parts[0][0].backend

    @cached_property
    def targets(self) -> list[TargetEdge]:
        """The targets of all files."""
        return [target for file, _ in self.parts for target in file.targets]

    @cached_property
    def levels(self) -> list[LevelEdge]:
        """The levels of all files."""
        return [level for file, _ in self.parts for level in file.levels]

    def at(self, *path: Key) -> Span:
        """Span of the value at a path: see `Document`."""
        _, document, own = self._place(path)
        return document.at(*own)

    def key_at(self, *path: Key) -> Span:
        """Span of the key at a path: see `Document`."""
        _, document, own = self._place(path)
        return document.key_at(*own)

    def sources(self, path: DataPath) -> Mapping[str, SourceEdge]:
        """The table of sources of the file that a path leads into."""
        return self._place(path)[0].sources

    def are_one_file(self, first: int, second: int) -> bool:
        """Whether two targets stand in the same file."""
        return self._place(("targets", first))[1] is self._place(("targets", second))[1]

    def _place(self, path: DataPath) -> tuple[TargetFile, Document, DataPath]:
        key, index, *rest = path
        assert isinstance(index, int)
        for file, document in self.parts:
            count = len(file.targets if key == "targets" else file.levels)
            if index < count:
                return file, document, (key, index, *rest)
            index -= count
        raise IndexError(path)
