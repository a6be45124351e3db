"""The proof that every kernel instance has a spec, a parity test that ran it, a benchmark and a row in the docs.

    PYTHONPATH=tests python -m support.kernel_proof [PATTERN]

What is expected comes from the specs alone. What is there is asked of the things themselves: the tables of the compiled
library, the report of the parity tests (with the instances that each one called), the benchmark's own list, the page.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from strata_gen.model.evidence import BENCHMARK, PARITY_TESTS, REFERENCES, parity_test_of, reference_function
from strata_gen.model.instances import built, instances
from strata_gen.model.kernel import Part
from strata_gen.model.kernel_name import KernelName, default_values, names_of
from strata_gen.model.specset import SpecSet
from strata_gen.paths import project_root
from strata_gen.resolve import find_target
from strata_gen.specs import load_specs
from strata_runtime.provider import PATH_VARIABLE, find_provider
from support.kernel_instances import LIBRARY
from support.native_package import TEST_PACKAGE, build_tree, open_package

PAGE = "docs/reference/kernels.md"
LEVEL_TABLE = "runtime/include/strata/kernels/level.hpp"
POOL_KERNELS = "runtime/include/strata/ops.hpp"
_NOT_KERNELS = {"name", "isa", "needs", "formats", "fetching_ahead_pays"}  # of LevelKernels and of the pool's header


@dataclass(frozen=True)
class Project:
    """A checkout, the specs in it, and a package with every level to run its tests and benchmarks with."""

    root: Path
    package: Path
    specs: SpecSet

    @property
    def package_variables(self) -> dict[str, str]:
        """How tests and benchmarks are told of the package."""
        return {TEST_PACKAGE: str(self.package), PATH_VARIABLE: str(self.package)}

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run Python in the checkout, with its own modules."""
        paths = [str(self.root / folder) for folder in ("generator", "runtime", "tests")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **self.package_variables}
        command = [sys.executable, *words]
        return subprocess.run(command, cwd=self.root, env=environment, capture_output=True, text=True)


@dataclass(frozen=True)
class Report:
    """What became of one parity test: why it was skipped, if so, and the instances that it called.

    `broken` is an error before or after the test itself.
    """

    skipped: str | None
    failed: bool
    broken: bool
    called: frozenset[str]


def code_without_spec(project: Project) -> Iterator[str]:
    """Kernels in the code that no spec names, and specs whose function is not there."""
    text = (project.root / LEVEL_TABLE).read_text(encoding="utf-8")
    table = re.search(r"^struct LevelKernels \{\n(.*?)^\};", text, re.MULTILINE | re.DOTALL)
    assert table is not None
    members = set(re.findall(r"(\w+);", re.sub(r"//.*", "", table[1]))) - _NOT_KERNELS
    micro = [kernel for kernel in project.specs.kernels if kernel.is_micro]
    entries = {
        name.symbol for kernel in micro for name in names_of(kernel, project.specs, ["any"], 1) if not name.format
    }
    yield from (f"{LEVEL_TABLE}: LevelKernels::{member} is no kernel of a spec" for member in sorted(members - entries))
    functions = {kernel.function for kernel in project.specs.kernels if not kernel.is_micro and not kernel.launch}
    known = functions | _NOT_KERNELS
    declared = re.findall(r"^[\w:]+ (\w+)\(", (project.root / POOL_KERNELS).read_text(encoding="utf-8"), re.MULTILINE)
    yield from (f"{POOL_KERNELS}: {name} is no kernel of a spec" for name in declared if name not in known)
    for kernel in project.specs.kernels:
        body = project.root / "runtime" / "include" / kernel.body
        form = rf"^struct {kernel.function} (: \w+ )?\{{" if kernel.launch else rf"^[^/]*\b{kernel.function}\("
        if not body.is_file() or not re.search(form, body.read_text(encoding="utf-8"), re.MULTILINE):
            yield f"{kernel.name}: no '{kernel.function}' in {kernel.body}"


def library_problems(project: Project) -> Iterator[str]:
    """Differences between what each level of the library uses and what the specs say."""
    native: Any = find_provider({PATH_VARIABLE: str(project.package)}).native
    target, values = find_target(project.specs, *LIBRARY), default_values(project.specs)
    micro = [kernel for kernel in project.specs.kernels if kernel.is_micro]
    everything = [each for kernel in micro for each in instances(kernel, project.specs, target, values)]
    for isa, names in native.kernel_names().items():
        expected = {str(each.serves) for each in everything if each.name.isa == isa}
        yield from (f"{name}: level {isa} of the library lacks it" for name in sorted(expected - set(names)))
        yield from (f"{name}: level {isa} uses it, and no spec says so" for name in sorted(set(names) - expected))


def reference_problems(project: Project, kernels: Iterable[str]) -> Iterator[str]:
    """Kernels without a reference function, or whose parity test does not compare with it."""
    defined = _functions(project.root / REFERENCES)
    tests = _functions(project.root / PARITY_TESTS)
    for kernel in kernels:
        if kernel not in defined:
            yield f"{kernel}: no reference {reference_function(kernel)}"
        test = tests.get(f"test_{kernel}")
        if test and f"references.{kernel}" not in {ast.unparse(node) for node in ast.walk(test)}:
            yield f"{kernel}: its parity test does not compare with references.{kernel}"


def _functions(path: Path) -> dict[str, ast.FunctionDef]:
    module = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name: node for node in module.body if isinstance(node, ast.FunctionDef)}


def parity_reports(project: Project, kernels: Iterable[str]) -> dict[str, Report]:
    """Run the parity tests of some kernels, and return a report of each by its name and parameter."""
    chosen = " or ".join(f"test_{kernel}[" for kernel in kernels)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "report.xml"
        words = ["-m", "pytest", PARITY_TESTS, f"--junitxml={file}", "-p", "no:cacheprovider", "-k", chosen]
        done = project.run(*words)
        if not file.is_file():
            raise RuntimeError(done.stdout + done.stderr)
        cases = list(ET.parse(file).iter("testcase"))
    return {case.attrib["name"]: _report(case) for case in cases}


def _report(case: ET.Element) -> Report:
    skipped = case.find("skipped")
    called = (each.attrib["value"] for each in case.iter("property") if each.attrib["name"] == "called")
    failed, broken = (case.find(key) is not None for key in ("failure", "error"))
    return Report(None if skipped is None else skipped.attrib["message"], failed, broken, frozenset(called))


def parity_problems(project: Project, names: Sequence[KernelName]) -> Iterator[str]:
    """Instances whose parity test is missing, skipped though this CPU can run it, failed, or called something else."""
    reports = parity_reports(project, dict.fromkeys(name.kernel for name in names))
    native: Any = find_provider({PATH_VARIABLE: str(project.package)}).native
    for name in names:
        report = reports.get(f"test_{name.kernel}[{name}]")
        if report is None:
            yield f"{name}: no parity test {parity_test_of(name)}"
        elif report.skipped is not None:
            if not name.isa or name.isa in native.ISAS:
                yield f"{name}: its parity test was skipped: {report.skipped}"
        elif report.failed:
            yield f"{name}: its parity test fails"
        elif str(name) not in report.called:
            yield f"{name}: its parity test never called it"
        elif report.broken:
            yield f"{name}: its parity test cannot be run"


def benchmark_problems(project: Project, names: Iterable[KernelName]) -> Iterator[str]:
    """Instances that the benchmark cannot select."""
    done = project.run(BENCHMARK, "--list")
    listed = set(done.stdout.split())
    if done.returncode != 0:
        yield f"{BENCHMARK} --list: {done.stderr.strip().splitlines()[-1]}"
    yield from (f"{name}: no benchmark: {BENCHMARK} does not list it" for name in names if str(name) not in listed)


def page_problems(project: Project, names: Iterable[KernelName]) -> Iterator[str]:
    """Instances without a row in the reference page."""
    lines = (project.root / PAGE).read_text(encoding="utf-8").splitlines()
    kernels = {kernel.name: kernel for kernel in project.specs.kernels}
    for name in names:
        kernel = kernels[name.kernel]
        rows = [f"| [`{kernel.name}`](#{kernel.anchor}) | "]
        if Part.ISA in kernel.parts:
            rows.append(f"| `{replace(name, tokens=0, isa='')}` | ")
        if not all(any(line.startswith(row) for line in lines) for row in rows):
            yield f"{name}: no row in {PAGE}"


def prove(root: Path, package: Path, pattern: str = "*") -> tuple[int, list[str]]:
    """Return the number of instances that match `pattern`, and everything that one of them lacks."""
    project = Project(root, package, load_specs((root / "specs",)))
    everything = built(project.specs, find_target(project.specs, *LIBRARY), default_values(project.specs))
    names = [name for name in everything if fnmatchcase(str(name), pattern)]
    findings = [
        *code_without_spec(project),
        *library_problems(project),
        *reference_problems(project, dict.fromkeys(name.kernel for name in names)),
        *parity_problems(project, names),
        *benchmark_problems(project, names),
        *page_problems(project, names),
    ]
    return len(names), findings


def main() -> int:
    """Prove it for this checkout, building the package with every level when it is not there."""
    build_tree()
    pattern = sys.argv[1] if len(sys.argv) > 1 else "*"
    count, findings = prove(project_root(), open_package().folder, pattern)
    for finding in findings:
        print(finding)
    print(f"{count} kernel instances: {f'{len(findings)} things missing' if findings else 'all proved'}")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
