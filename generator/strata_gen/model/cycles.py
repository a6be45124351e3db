"""Cycles in a small directed graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def find_cycles(graph: Mapping[str, Sequence[str]]) -> tuple[tuple[str, ...], ...]:
    """Return one cycle for every group of nodes that reach one another, each from its smallest name on.

    `graph` maps a node to the nodes that it leads to; names that are no nodes are passed over.
    """
    found: dict[frozenset[str], tuple[str, ...]] = {}
    covered: set[str] = set()
    for start in sorted(graph):
        if start not in covered and (cycle := _shortest_cycle(graph, start)):
            found.setdefault(frozenset(cycle), cycle)
            covered.update(cycle)
    return tuple(found.values())


def _shortest_cycle(graph: Mapping[str, Sequence[str]], start: str) -> tuple[str, ...]:
    """Return the shortest way from `start` back to itself, by breadth; () when there is none."""
    paths: list[tuple[str, ...]] = [(start,)]
    seen: set[str] = set()
    while paths:
        path = paths.pop(0)
        for successor in graph.get(path[-1], ()):
            if successor == start:
                return path
            if successor in graph and successor not in seen:
                seen.add(successor)
                paths.append((*path, successor))
    return ()
