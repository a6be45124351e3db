"""The kernels package of this machine's CPU, built at most once."""

from __future__ import annotations

import subprocess
import sys
from functools import cache

from strata_gen.paths import project_root
from strata_runtime.provider import PATH_VARIABLE, Provider, find_provider

_SCRIPT = "from strata_gen.cli.main import main; main()"


def _can_build() -> bool:
    try:
        import pydantic  # noqa: F401
    except ImportError:
        return False
    return True


@cache
def compiled_provider() -> Provider:
    """Build `cpu native` into the checkout's build folder, or find it there, and open it.

    Machines that are there for their GPU alone may lack what the generator needs: they take the package for a CPU that
    was brought along.
    """
    root = project_root()
    if not _can_build():
        brought = sorted(root.glob("build/cpu/*/package/strata_kernels_cpu_*"))
        assert len(brought) == 1, f"the generator cannot run here, and build/cpu holds {len(brought)} packages"
        return find_provider({PATH_VARIABLE: str(brought[0])})
    command = [sys.executable, "-c", _SCRIPT, "build", "--target", "cpu", "native"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    package = root / "build" / "cpu" / "native" / "package" / "strata_kernels_cpu_native"
    return find_provider({PATH_VARIABLE: str(package)})
