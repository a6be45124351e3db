"""From the edge to the model: sources of numbers, and what files can get wrong about the targets of a backend."""

from __future__ import annotations

import re
from collections.abc import Sequence

from strata_gen.diagnostics import Note, Sink, did_you_mean
from strata_gen.edge.target_edge import (
    CompilerEdge,
    LevelEdge,
    MatrixEdge,
    NumberEdge,
    TargetEdge,
    TargetFile,
)
from strata_gen.edge.target_files import TargetFiles
from strata_gen.edge.target_lineage import Lineage, read_lineages
from strata_gen.load.document import DataPath, Document
from strata_gen.model.target import (
    Backend,
    Compiler,
    CpuLevel,
    DeniedRange,
    DotInstruction,
    KnobDefault,
    MappedStores,
    MatrixLanes,
    MatrixShape,
    Source,
    Target,
    parse_version,
)

_NUMBERS = (
    "wave_size",
    "threads_per_block",
    "shared_bytes",
    "shared_optin_bytes",
    "registers_per_block",
    "registers_per_thread",
)
_GPU_ONLY = (*_NUMBERS, "matrix", "host")
_CPU_ONLY = ("levels", "native")
_NAMES = {Backend.CUDA: re.compile("sm_[0-9]+[af]?"), Backend.HIP: re.compile("gfx[0-9a-f]+")}
_NEEDED = ("dot", "mapped_stores", "compilers")


class _Converter:
    """Converts the files of one backend; `sink` takes the findings."""

    def __init__(self, files: TargetFiles, sink: Sink) -> None:
        self.files, self.sink = files, sink
        self.facts: list[tuple[str, Source]] = []

    def error(self, number: str, message: str, path: DataPath, label: str = "", notes: tuple[Note, ...] = ()) -> None:
        self.sink.error(f"T{number}", message, self.files.at(*path), label, notes)

    # --- sources and numbers

    def source(self, key: str, path: DataPath) -> Source:
        sources = self.files.sources(path)
        found = sources.get(key)
        if found is None:
            self.error("020", f"unknown source '{key}'", (*path, "source"), did_you_mean(key, sources))
            return Source(key, "", "")
        return Source(key, found.title, found.section)

    def note_source(self, fact: str, key: str, path: DataPath) -> None:
        self.facts.append((fact, self.source(key, path)))

    def number(self, lineage: Lineage, key: str) -> int | None:
        found = lineage.nearest(key)
        if found is None:
            return None
        path, edge = found
        fact = getattr(edge, key)
        assert isinstance(fact, NumberEdge)
        self.note_source(key, fact.source, path)
        if key == "wave_size" and fact.value not in (32, 64):
            self.error("026", f"wave size {fact.value}: a wave has 32 or 64 lanes", (*path, "value"))
        return fact.value

    def matrix(self, lineage: Lineage) -> tuple[tuple[MatrixShape, ...], MatrixLanes]:
        found = lineage.nearest("matrix")
        if found is None:
            return (), MatrixLanes.NONE
        path, edge = found
        assert isinstance(edge.matrix, MatrixEdge)
        self.note_source("matrix", edge.matrix.source, path)
        self.note_source("matrix lanes", edge.matrix.lanes.source, (*path, "lanes"))
        return tuple(_shape(text) for text in edge.matrix.shapes), edge.matrix.lanes.value

    # --- compilers

    def denied(self, lineage: Lineage, family: str) -> tuple[DeniedRange, ...]:
        found = []
        for index, edge in lineage.chain:
            for position, denied in enumerate(edge.denied):
                if denied.compiler == family:
                    first, last = parse_version(denied.first), parse_version(denied.last)
                    found.append(DeniedRange(first, last, denied.reason))
                    self.note_source("denied", denied.source, ("targets", index, "denied", position))
        return tuple(found)

    def check_denied(self, index: int, edge: TargetEdge) -> None:
        for position, denied in enumerate(edge.denied):
            if parse_version(denied.last) < parse_version(denied.first):
                message = f"denied releases end ({denied.last}) before they begin ({denied.first})"
                self.error("025", f"{message} in target '{edge.name}'", ("targets", index, "denied", position, "last"))

    def compilers(self, lineage: Lineage) -> tuple[Compiler, ...]:
        found = lineage.nearest("compilers")
        if found is None:
            return ()
        path, edge = found
        families = [compiler.family for compiler in edge.compilers or ()]
        for index, one in lineage.chain:
            for position, denied in enumerate(one.denied):
                if denied.compiler not in families:
                    message = (
                        f"releases of {denied.compiler} are denied to a target that {denied.compiler} never builds"
                    )
                    self.error("034", message, ("targets", index, "denied", position, "compiler"))
        return tuple(
            self.compiler(lineage, one, (*path, position)) for position, one in enumerate(edge.compilers or ())
        )

    def compiler(self, lineage: Lineage, edge: CompilerEdge, path: DataPath) -> Compiler:
        self.note_source(f"{edge.family} minimum", edge.minimum.source, (*path, "minimum"))
        minimum, maximum = parse_version(edge.minimum.value), None
        if edge.maximum is not None:
            self.note_source(f"{edge.family} maximum", edge.maximum.source, (*path, "maximum"))
            maximum = parse_version(edge.maximum.value)
            if maximum < minimum:
                message = f"maximum {edge.maximum.value} lies below minimum {edge.minimum.value}"
                self.error("025", message, (*path, "maximum", "value"))
        return Compiler(edge.family, minimum, maximum, self.denied(lineage, edge.family))

    # --- levels

    def levels(self) -> dict[str, CpuLevel]:
        cpu_flags: list[str] = []
        found: dict[str, CpuLevel] = {}
        for index, edge in enumerate(self.files.levels):
            path: DataPath = ("levels", index)
            if edge.name in found:
                self.error("023", f"level '{edge.name}' is declared twice", (*path, "name"))
            cpu_flags += [flag for flag in edge.cpu_flags if flag not in cpu_flags]
            found[edge.name] = self.level(edge, tuple(cpu_flags), path)
        return found

    def level(self, edge: LevelEdge, cpu_flags: tuple[str, ...], path: DataPath) -> CpuLevel:
        return CpuLevel(
            name=edge.name,
            isa=edge.isa,
            flags=tuple(edge.flags),
            cpu_flags=cpu_flags,
            vector_bytes=edge.vector_bytes.value,
            vector_source=self.source(edge.vector_bytes.source, (*path, "vector_bytes")),
            dot=edge.dot,
            source=self.source(edge.source, path),
        )

    def levels_of(self, lineage: Lineage, levels: dict[str, CpuLevel]) -> tuple[CpuLevel, ...]:
        found = lineage.nearest("levels")
        if found is None or self.files.backend is not Backend.CPU:
            return ()
        path, edge = found
        names = edge.levels or []
        for position, name in enumerate(names):
            if name not in levels:
                self.error("028", f"unknown level '{name}'", (*path, position), did_you_mean(name, levels))
                return ()
        order = [list(levels).index(name) for name in names]
        if order != sorted(set(order)):
            self.error("029", "levels stand weakest first, each once, in the order of the file's 'levels'", path)
        chosen = tuple(levels[name] for name in names)
        if not lineage.leaf.native and len({level.isa for level in chosen}) < len(chosen):
            self.error("029", "two levels of one target cannot share a namespace ('isa')", path)
        return chosen

    # --- one target

    def check_concrete(self, lineage: Lineage) -> None:
        """Report what an abstract base may leave open: obligatory keys, and the name of an architecture."""
        backend, leaf, at = self.files.backend, lineage.leaf, (*lineage.path, "name")
        for key in (*_NEEDED, "levels" if backend is Backend.CPU else "wave_size"):
            if lineage.nearest(key) is None:
                self.error("024", f"target '{leaf.name}' and its bases leave out '{key}'", at)
        form = _NAMES.get(backend)
        if form is not None and not form.fullmatch(leaf.name):
            message = f"'{leaf.name}' is not the name of a {backend} architecture, which has the form {form.pattern}"
            self.error("035", message, at)

    def check_misplaced(self, lineage: Lineage) -> None:
        for key in _GPU_ONLY if self.files.backend is Backend.CPU else _CPU_ONLY:
            if (found := lineage.nearest(key)) is not None:
                self.error("030", f"'{key}' means nothing for a {self.files.backend} target", found[0])

    def target(self, lineage: Lineage, levels: dict[str, CpuLevel]) -> Target:
        self.facts = []
        if not lineage.leaf.abstract:
            self.check_concrete(lineage)
        self.check_misplaced(lineage)
        leaf, path = lineage.leaf, lineage.path
        dot, mapped = lineage.nearest("dot"), lineage.nearest("mapped_stores")
        host = lineage.nearest("host")
        numbers = {key: self.number(lineage, key) for key in _NUMBERS}
        shapes, lanes = self.matrix(lineage)
        return Target(
            name=leaf.name,
            backend=self.files.backend,
            help=leaf.help,
            aliases=tuple(leaf.aliases),
            **numbers,
            matrix=shapes,
            matrix_lanes=lanes,
            dot=dot[1].dot or DotInstruction.NONE if dot else DotInstruction.NONE,
            features=tuple(dict.fromkeys(feature for _, edge in lineage.chain for feature in edge.features)),
            mapped_stores=mapped[1].mapped_stores or MappedStores.CACHE if mapped else MappedStores.CACHE,
            compilers=self.compilers(lineage),
            flags=tuple(flag for _, edge in lineage.chain for flag in edge.flags),
            runs_on=tuple(dict.fromkeys([leaf.name, *leaf.runs_on])),
            knob_defaults=self.knob_defaults(lineage),
            levels=self.levels_of(lineage, levels),
            native=leaf.native,
            host=host[1].host or "" if host else "",
            facts=tuple(dict(self.facts).items()),
            span=self.files.at(*path, "name"),
            aliases_span=self.files.at(*path, "aliases"),
            runs_on_span=self.files.at(*path, "runs_on"),
            host_span=self.files.at(*(host[0] if host else path)),
        )

    def knob_defaults(self, lineage: Lineage) -> tuple[KnobDefault, ...]:
        found = {
            name: KnobDefault(name, value, self.files.key_at("targets", index, "knobs", name))
            for index, edge in lineage.chain
            for name, value in edge.knobs.items()
        }
        return tuple(found[name] for name in sorted(found))

    def convert(self) -> tuple[Target, ...]:
        lineages = read_lineages(self.files, self.sink)
        for index, edge in enumerate(self.files.targets):
            self.check_denied(index, edge)
        levels = self.levels()
        # Bases are converted too, so that what is wrong in one that nobody extends is found.
        targets = [(lineage, self.target(lineage, levels)) for lineage in lineages]
        return tuple(target for lineage, target in targets if not lineage.leaf.abstract)


def _shape(text: str) -> MatrixShape:
    shape, operand, accumulator = text.split()
    m, _, rest = shape.removeprefix("m").partition("n")
    n, _, k = rest.partition("k")
    return MatrixShape(int(m), int(n), int(k), operand, accumulator)


def convert_files(files: Sequence[tuple[TargetFile, Document]], sink: Sink) -> tuple[Target, ...]:
    """Return the files' targets without abstract bases; findings (codes T020 to T030, T034, T035) go to `sink`."""
    backends = dict.fromkeys(file.backend for file, _ in files)
    parts = (TargetFiles([each for each in files if each[0].backend is backend]) for backend in backends)
    return tuple(target for part in parts for target in _Converter(part, sink).convert())
