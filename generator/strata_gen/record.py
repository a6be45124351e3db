"""What is remembered of a build beside its package: the parts of its key, and what compiling took."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from strata_gen.write import write_atomically

RECORD = "record.json"
_OBJECT = ".dir/"
# Where nothing was built yet: medians of the project's own sources on one core of an AMD EPYC, and their share of the
# module. What is compiled for a GPU stands out in both.
_ROUGH_SECONDS = {".cpp": 3.0, ".cu": 45.0}
_ROUGH_BYTES = {".cpp": 36_000, ".cu": 150_000}


@dataclass(frozen=True, slots=True)
class BuildRecord:
    """`parts` are those of the build key by name, `seconds` what each source took, `module_bytes` how large it is."""

    package: str
    parts: Mapping[str, str]
    seconds: Mapping[str, float]
    module_bytes: int


@dataclass(frozen=True, slots=True)
class Estimate:
    """What compiling is expected to take with `jobs` compilers at once, and how large the module will be.

    `measured` of `sources` were compiled on this machine before; the others are guessed.
    """

    seconds: float
    module_bytes: int
    jobs: int
    measured: int
    sources: int


def write_record(folder: Path, record: BuildRecord) -> None:
    """Write a record into the folder of a cache entry."""
    write_atomically(folder / RECORD, json.dumps(asdict(record), indent=1, sort_keys=True).encode())


def read_record(folder: Path) -> BuildRecord | None:
    """Read the record of a cache entry; None when there is none that can be read."""
    try:
        return BuildRecord(**json.loads((folder / RECORD).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def compile_seconds(cmake: Path) -> dict[str, float]:
    """Return how long each source took the last time that it was compiled, by Ninja's own log."""
    try:
        lines = (cmake / ".ninja_log").read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    rows = [line.split("\t") for line in lines if not line.startswith("#")]
    objects = [row for row in rows if len(row) >= 4 and _OBJECT in row[3] and row[3].endswith(".o")]
    return {row[3].partition(_OBJECT)[2][:-2]: (int(row[1]) - int(row[0])) / 1000 for row in objects}


def _rough(table: Mapping[str, float], source: str) -> float:
    return table.get(Path(source).suffix, table[".cpp"])


def _guesses(sources: Iterable[str], known: Mapping[str, float]) -> Iterator[float]:
    """Yield seconds for sources that were not compiled here: as those of their kind took, else a rough figure."""
    for source in sources:
        alike = [seconds for other, seconds in known.items() if Path(other).suffix == Path(source).suffix]
        yield statistics.median(alike) if alike else _rough(_ROUGH_SECONDS, source)


def estimate(
    package: str, sources: Sequence[str], compiled: Sequence[str], records: Sequence[BuildRecord], jobs: int
) -> Estimate:
    """Predict compiling `compiled` of a package's `sources`, from what was built on this machine, newest first."""
    known: dict[str, float] = {}
    for record in records:
        for source, seconds in record.seconds.items():
            known.setdefault(source, seconds)
    measured = [known[source] for source in compiled if source in known]
    each = [*measured, *_guesses((source for source in compiled if source not in known), known)]
    seconds = max(sum(each) / jobs, max(each, default=0.0))
    own = next((record.module_bytes for record in records if record.package == package), None)
    size = own if own is not None else int(sum(_rough(_ROUGH_BYTES, source) for source in sources))
    return Estimate(seconds, size, jobs, len(measured), len(compiled))
