"""A virtual environment with this one's packages and nothing of the project, to install our wheels into."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

_OURS = ("strata", "_strata", "__editable__")


class FreshEnvironment:
    """One environment; its commands run in `here`, a folder outside the checkout, without a home to write to."""

    def __init__(self, root: Path) -> None:
        self.bin, self.here = root / "venv" / "bin", root / "here"
        self.here.mkdir(parents=True)
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(root / "venv")], check=True)
        self._borrow_packages(root)

    def _borrow_packages(self, root: Path) -> None:
        """Have this environment's packages importable, by links: nothing is downloaded, nothing of ours comes along."""
        borrowed = root / "borrowed"
        borrowed.mkdir()
        for path in Path(sysconfig.get_path("purelib")).iterdir():
            if not path.name.startswith(_OURS) and path.suffix != ".pth":
                (borrowed / path.name).symlink_to(path)
        site = next((root / "venv").glob("lib/python*/site-packages"))
        (site / "borrowed.pth").write_text(f"{borrowed}\n")

    def pip(self, *arguments: str | Path) -> None:
        """Run this environment's pip on the fresh one, with no index."""
        pip = [sys.executable, "-m", "pip", "--python", str(self.bin / "python"), "--disable-pip-version-check"]
        done = subprocess.run([*pip, *map(str, arguments)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    def install(self, wheels: Sequence[Path]) -> None:
        self.pip("install", "--no-deps", "--no-index", "--no-cache-dir", *wheels)

    def uninstall(self, distribution: str) -> None:
        self.pip("uninstall", "-y", distribution)

    def run(self, command: str, *arguments: str | Path, **extra: str) -> subprocess.CompletedProcess[str]:
        """Run an installed command as a user with no checkout does."""
        drop = ("PYTHONPATH", "PYTHONHOME", "XDG_CACHE_HOME", "VIRTUAL_ENV")
        kept = {name: text for name, text in os.environ.items() if name not in drop and not name.startswith("STRATA_")}
        environ = {**kept, "HOME": f"{os.devnull}/home", "OMP_NUM_THREADS": "1", **extra}
        words = [str(self.bin / command), *map(str, arguments)]
        return subprocess.run(words, cwd=self.here, env=environ, capture_output=True, text=True)
