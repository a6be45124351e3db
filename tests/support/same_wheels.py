"""Wheels built twice from nothing, in two folders, and compared byte by byte.

    PYTHONPATH=tests python -m support.same_wheels [--target BACKEND ARCH]...

It takes the compilers of the targets, no GPU, and twice the time of a build. Without targets: one of each backend.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

SCRIPT = "from strata_gen.cli.main import main; main()"
TARGETS = (("cpu", "x86-64-v3"), ("cuda", "sm_90"), ("hip", "gfx1151"))


def wheels(targets: Sequence[tuple[str, str]], folder: Path) -> dict[str, bytes]:
    """Build all wheels of some targets in a folder, without the cache; return their bytes by file name."""
    places = ["--out", str(folder / "build"), "--dist", str(folder / "dist"), "--no-cache"]
    for words in (*(["--target", *target] for target in targets), ["--core", "--generator"]):
        subprocess.run([sys.executable, "-c", SCRIPT, "wheel", *words, *places], check=True)
    return {path.name: path.read_bytes() for path in sorted((folder / "dist").glob("*.whl"))}


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="same_wheels", description="Build wheels twice and compare their bytes.")
    parser.add_argument("--target", nargs=2, action="append", metavar=("BACKEND", "ARCH"), dest="targets")
    targets = [(backend, arch) for backend, arch in parser.parse_args(words).targets or TARGETS]
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as root:
        try:
            first = wheels(targets, Path(root) / "one")
            second = wheels(targets, Path(root) / "another folder")
        except subprocess.CalledProcessError as failed:  # which has said why
            return failed.returncode
    for name, data in first.items():
        same = "the same" if second.get(name) == data else "DIFFERENT"
        print(f"{same}: {name}, {len(data)} bytes, {hashlib.sha256(data).hexdigest()[:16]}")
    print(f"{len(first)} wheels, built twice in {time.monotonic() - start:.0f} s")
    return 0 if first == second else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("interrupted")
