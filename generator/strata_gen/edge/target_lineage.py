"""Inheritance between the targets of one backend."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from strata_gen.diagnostics import Note, Sink, did_you_mean
from strata_gen.edge.target_edge import TargetEdge
from strata_gen.edge.target_files import TargetFiles
from strata_gen.load.document import DataPath


@dataclass(frozen=True, slots=True)
class Lineage:
    """A target and its bases, root first, each with its index among all targets."""

    chain: tuple[tuple[int, TargetEdge], ...]

    @property
    def leaf(self) -> TargetEdge:
        """The target itself."""
        return self.chain[-1][1]

    @property
    def path(self) -> DataPath:
        """Place of the target itself."""
        return ("targets", self.chain[-1][0])

    def nearest(self, key: str) -> tuple[DataPath, TargetEdge] | None:
        """Return the place closest to the leaf that writes `key`, and whose it is; None when nobody does."""
        for index, edge in reversed(self.chain):
            if key in edge.model_fields_set and getattr(edge, key) is not None:
                return ("targets", index, key), edge
        return None


class _Reader:
    def __init__(self, files: TargetFiles, sink: Sink) -> None:
        self.targets, self.files, self.sink = files.targets, files, sink
        self.by_name: dict[str, int] = {}

    def error(self, code: str, message: str, path: DataPath, label: str = "", notes: tuple[Note, ...] = ()) -> None:
        self.sink.error(code, message, self.files.at(*path), label, notes)

    def collect_names(self) -> None:
        for index, edge in enumerate(self.targets):
            if edge.name in self.by_name and self._is_reported_here(self.by_name[edge.name], index):
                first = Note("first declared here", self.files.at("targets", self.by_name[edge.name], "name"))
                message = f"target '{edge.name}' is declared twice"
                self.error("T023", message, ("targets", index, "name"), notes=(first,))
            self.by_name.setdefault(edge.name, index)

    def _is_reported_here(self, first: int, second: int) -> bool:
        """Two targets to build for that share a name in different files are found among all specs."""
        return self.targets[first].abstract or self.targets[second].abstract or self.files.are_one_file(first, second)

    def lineage(self, index: int) -> Lineage | None:
        chain = [(index, self.targets[index])]
        while (base := chain[0][1].extends) is not None:
            at: DataPath = ("targets", chain[0][0], "extends")
            if base not in self.by_name:
                message = f"target '{chain[0][1].name}' extends '{base}', which no file declares for this backend"
                self.error("T021", message, at, did_you_mean(base, self.by_name))
                return None
            found = self.by_name[base]
            if found in [position for position, _ in chain]:
                self.report_circle([position for position, _ in reversed(chain)], found, at)
                return None
            chain.insert(0, (found, self.targets[found]))
        return Lineage(tuple(chain))

    def report_circle(self, walked: list[int], back_to: int, at: DataPath) -> None:
        """Report a circle once: when the walk began at its first member."""
        circle = walked[walked.index(back_to) :]
        if walked[0] == min(circle):
            names = " -> ".join(self.targets[position].name for position in (*circle, back_to))
            self.error("T022", f"targets extend one another in a circle: {names}", at)

    def lineages(self) -> Iterator[Lineage]:
        self.collect_names()
        for index in range(len(self.targets)):
            if (lineage := self.lineage(index)) is not None:
                yield lineage


def read_lineages(files: TargetFiles, sink: Sink) -> tuple[Lineage, ...]:
    """Return the lineage of every target whose bases are there; findings (codes T021 to T023) go to `sink`."""
    return tuple(_Reader(files, sink).lineages())
