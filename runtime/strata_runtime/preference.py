"""Which of several kernels packages is the one for this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from strata_runtime.fit import Fit, fit_of_gpu, lacking
from strata_runtime.gpus import Gpus
from strata_runtime.manifest import Damaged, Manifest, build_command, read_manifest

_CPU = "cpu"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A package's folder: `why` it would be taken, or `misfit`, which says why it is not for this machine."""

    folder: Path
    rank: Fit
    why: str
    misfit: str = ""


def _for_gpu(folder: Path, manifest: Manifest, gpus: Gpus) -> Candidate:
    if not gpus.visible:
        return Candidate(folder, Fit.NONE, "", f"it is for a GPU, and {gpus.problem}")
    gpu = gpus.visible[0]
    if (fit := fit_of_gpu(manifest, gpu.arch)) is Fit.NONE:
        mend = build_command(manifest.backend, gpu.arch)
        return Candidate(folder, Fit.NONE, "", f"it is for {manifest.arch}, and this machine's GPU is {gpu}: {mend}")
    return Candidate(folder, fit, f"this machine's GPU is {gpu}")


def _candidate(folder: Path, manifest: Manifest | None, asked: Mapping[str, Gpus]) -> Candidate:
    if manifest is not None and (flags := lacking(manifest)):
        return Candidate(folder, Fit.NONE, "", f"this CPU lacks {', '.join(flags)}, which it needs")
    if manifest is None or manifest.backend == _CPU:
        others = "none for a GPU fits this machine" if asked else "there is none for a GPU"
        return Candidate(folder, Fit.CPU, f"it is for CPUs, and {others}")
    if manifest.backend in asked:
        return _for_gpu(folder, manifest, asked[manifest.backend])
    return Candidate(folder, Fit.NONE, "", f"it is for {manifest.backend}, which this version does not run")


def _manifest(folder: Path) -> Manifest | None:
    try:
        return read_manifest(folder)
    except Damaged:
        return None


def by_preference(folders: Iterable[Path], looks: Mapping[str, Callable[[], Gpus]]) -> list[Candidate]:
    """Return packages for this machine's first GPU, then those for CPUs, then what does not fit; else in their order.

    `looks` find the GPUs of a backend, and are called only when there is a package for it. What has a damaged manifest
    counts as one for CPUs.
    """
    read = [(folder, _manifest(folder)) for folder in folders]
    backends = {manifest.backend for _, manifest in read if manifest is not None}
    asked = {backend: look() for backend, look in looks.items() if backend in backends}
    return sorted((_candidate(*each, asked) for each in read), key=lambda candidate: candidate.rank)
