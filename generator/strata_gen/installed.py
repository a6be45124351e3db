"""The kernels packages that this machine has, as the runtime sees them, and those that its GPUs would like."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

from strata_gen import __version__
from strata_gen.amd_gpus import TOPOLOGY, visible_amd_gpus
from strata_gen.doctor import Finding
from strata_gen.errors import GeneratorError
from strata_gen.gpus import Gpu, visible_gpus
from strata_gen.model.specset import SpecSet
from strata_gen.paths import default_dist, runtime_root
from strata_gen.resolve import package_name
from strata_gen.wheel.kernels import RUNTIME, install_command

_ASK = """
import importlib.util, json, os, sys
sys.path.append(sys.argv[1])
if importlib.util.find_spec("strata_runtime") is None:
    sys.exit(3)
from strata_runtime.provider import survey
print(json.dumps([considered.facts() for considered in survey(os.environ)]))
"""
_NO_RUNTIME = 3


def packages_here(environ: Mapping[str, str]) -> Iterator[Finding]:
    """Yield every kernels package that the runtime considers, with the reason why it would be taken or not."""
    command = [sys.executable, "-c", _ASK, str(runtime_root())]
    done = subprocess.run(command, capture_output=True, text=True, env=environ, check=False)
    if done.returncode == _NO_RUNTIME:
        yield Finding("runtime", "", f"{RUNTIME} is not installed", f"pip install {RUNTIME}=={__version__}")
        return
    if done.returncode:
        yield Finding("runtime", "", (done.stderr.splitlines() or ["it says nothing"])[-1])
        return
    for package in json.loads(done.stdout):
        name, reason = Path(package["folder"]).name, package["clash"] or package["reason"]
        fits = package["usable"] and not package["clash"]
        yield Finding(name, reason) if fits else Finding(name, "", reason)


def packages_wanted(specs: SpecSet, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Yield the package that fits each kind of GPU here, with the commands that install and build it."""
    gpus: list[Gpu] = []
    for look in (partial(visible_gpus, environ), partial(visible_amd_gpus, TOPOLOGY)):
        with suppress(GeneratorError):
            gpus += look()
    for gpu in dict.fromkeys(gpus):
        target = next((target for target in specs.targets if target.name == gpu.arch), None)
        if target is None:
            yield Finding("fits", "", f"there is no target for {gpu}")
            continue
        package = package_name(target)
        wheels = sorted(default_dist().glob(f"{package}-*.whl"))
        install = f"pip install {wheels[-1]}" if wheels else install_command(package)
        yield Finding("fits", f"{gpu}: {install}, or strata-gen build --target {target.backend} {target.name}")
