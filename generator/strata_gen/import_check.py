"""The last step of a build: the new package is imported by a fresh interpreter before anyone else can."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from strata_gen.errors import GeneratorError
from strata_gen.failures import BuildFailure, hint_for
from strata_gen.host import read_host
from strata_gen.layout import shown
from strata_gen.paths import runtime_root
from strata_gen.progress import Reporter
from strata_gen.resolve import Plan
from strata_gen.tree import Tree

_SCRIPT = """
import importlib, importlib.util, json, pathlib, sys
name, folder, runtime = sys.argv[1:]
sys.path[:0] = [folder, runtime]
package = importlib.import_module(name)
whole = importlib.util.find_spec("strata_runtime") is not None
for path in sorted(pathlib.Path(package.__file__).parent.glob("*.py")) if whole else ():
    importlib.import_module(name if path.stem == "__init__" else f"{name}.{path.stem}")
native = importlib.import_module(name + "._native")
print(json.dumps({"abi_version": native.ABI_VERSION}))
"""
"""The package's tables are made of types of the runtime: where that is not installed, they are not imported."""

_ABI = re.compile(r"\bkAbiVersion = (\d+);")


def _declared_abi(tree: Tree) -> int:
    """Return the version of the native protocol that the sources declare."""
    found = [match for file in tree.files if file.path.endswith(".cpp") for match in _ABI.findall(file.text)]
    if len(found) != 1:
        raise GeneratorError("the native sources must declare 'kAbiVersion = N;' exactly once", where="runtime/src")
    return int(found[0])


def check_package(tree: Tree, package: Path, log: Path, reporter: Reporter) -> dict[str, object]:
    """Import a new package, unless this machine cannot run it: then one line says so.

    Returns its `abi_version`: what it says, else what its sources declare. Raises `BuildFailure`.
    """
    if not runs_here(tree.plan, reporter):
        return {"abi_version": _declared_abi(tree)}
    return import_check(tree.plan, package, log, os.environ)


def runs_here(plan: Plan, reporter: Reporter) -> bool:
    """Whether this CPU can import a package; when it cannot, one line says so."""
    lacking = read_host().missing(plan.levels[0])
    if lacking:
        reporter.say(f"{plan.package} is not imported to check it: this CPU lacks {', '.join(lacking)}")
    return not lacking


def import_check(plan: Plan, package: Path, log: Path, environ: Mapping[str, str]) -> dict[str, object]:
    """Import every module of a package in a subprocess; return what the native one says of itself, its `abi_version`.

    Raises `BuildFailure`.
    """
    command = [sys.executable, "-c", _SCRIPT, plan.package, str(package.parent), str(runtime_root())]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, env=environ)
    if done.returncode == 0:
        seen: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
        return seen
    with log.open("a", encoding="utf-8") as stream:
        stream.write(f"$ {shlex.join(command)}\n{done.stdout}{done.stderr}")
    output = done.stderr.splitlines()
    if done.returncode < 0:
        output.append(f"ended by {signal.Signals(-done.returncode).name}")
    line = next((line for line in reversed(output) if line.strip()), "no output")
    raise BuildFailure(
        f"{plan.package} was compiled but cannot be imported: {line}",
        hint=hint_for(output),
        rerun=f"PYTHONPATH={shlex.quote(str(package.parent))} {sys.executable} -c 'import {plan.package}._native'",
        log=Path(shown(log)),
    )
