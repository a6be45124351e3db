"""Wheels built twice from nothing, in two folders, and compared byte by byte.

    PYTHONPATH=tests python -m support.same_wheels --target cuda sm_90 [ARCH...]

It takes the compilers of the target, no GPU, and twice the time of a build.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
import tempfile
from pathlib import Path

SCRIPT = "from strata_gen.cli.main import main; main()"


def wheels(backend: str, archs: list[str], folder: Path) -> dict[str, bytes]:
    """Build the wheels of some targets in a folder, without the cache; return their bytes by file name."""
    places = ["--out", str(folder / "build"), "--dist", str(folder / "dist"), "--no-cache"]
    words = ["wheel", "--core", "--generator", "--target", backend, *archs, *places]
    subprocess.run([sys.executable, "-c", SCRIPT, *words], check=True)
    return {path.name: path.read_bytes() for path in sorted((folder / "dist").glob("*.whl"))}


def main() -> int:
    parser = argparse.ArgumentParser(prog="same_wheels", description="Build wheels twice and compare their bytes.")
    parser.add_argument("--target", required=True, metavar="BACKEND", dest="backend")
    parser.add_argument("archs", nargs="+", metavar="ARCH")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as root:
        first = wheels(given.backend, given.archs, Path(root) / "one")
        second = wheels(given.backend, given.archs, Path(root) / "another folder")
    for name, data in first.items():
        same = "the same" if second.get(name) == data else "DIFFERENT"
        print(f"{same}: {name}, {len(data)} bytes, {hashlib.sha256(data).hexdigest()[:16]}")
    return 0 if first == second else 1


if __name__ == "__main__":
    sys.exit(main())
