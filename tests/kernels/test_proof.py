"""The proof that every kernel is specified, tested, measured and documented holds here, and notices what is missing.

Each way of leaving something out is tried on a copy of the checkout.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from strata_gen.model.format import Activation
from strata_gen.model.instances import built
from strata_gen.model.kernel_name import KernelName, default_values
from strata_gen.model.specset import SpecSet
from strata_gen.paths import project_root
from strata_gen.resolve import find_target
from strata_gen.specs import load_specs
from strata_runtime.provider import PATH_VARIABLE, Provider, find_provider
from support import kernel_proof
from support.kernel_instances import LIBRARY
from support.kernel_proof import BENCHMARK, LEVEL_TABLE, PAGE, PARITY_TESTS, POOL_KERNELS, REFERENCES, Project

pytestmark = pytest.mark.native

FOLDERS = ("specs", "templates", "generator", "runtime", "bench", "docs/reference", "tests/support", "tests/kernels")
SILU = [KernelName("silu_multiply", isa=isa) for isa in ("generic", "avx2", "avx512", "avx512vnni")]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what the proof looks at."""
    root = tmp_path_factory.mktemp("project") / "whole"
    for folder in FOLDERS:
        shutil.copytree(project_root() / folder, root / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(project_root() / "pyproject.toml", root)
    return root


@pytest.fixture
def copy(whole: Path, tmp_path: Path) -> Path:
    return shutil.copytree(whole, tmp_path / "copy")


@pytest.fixture
def project(copy: Path, provider: Provider, specs: SpecSet) -> Project:
    return Project(copy, provider.folder, specs)


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def test_every_instance_of_this_checkout_is_proved(provider: Provider, specs: SpecSet) -> None:
    count, findings = kernel_proof.prove(project_root(), provider.folder)
    assert findings == []
    assert count == len(built(specs, find_target(specs, *LIBRARY), default_values(specs))) > 300


def test_a_kernel_without_a_spec_is_noticed(copy: Path, project: Project) -> None:
    (copy / "specs/kernels/silu_multiply.yaml").unlink()
    (copy / "specs/kernels/checksum.yaml").unlink()
    edit(copy / "specs/kernels/moe_experts.yaml", ", silu_multiply]", "]")
    without = replace(project, specs=load_specs((copy / "specs",)))
    assert list(kernel_proof.code_without_spec(without)) == [
        f"{LEVEL_TABLE}: LevelKernels::silu_multiply is no kernel of a spec",
        f"{POOL_KERNELS}: checksum is no kernel of a spec",
    ]
    found = list(kernel_proof.library_problems(without))
    assert found == [f"{name}: level {name.isa} uses it, and no spec says so" for name in SILU]


def test_a_spec_without_a_kernel_is_noticed(project: Project) -> None:
    (silu,) = (kernel for kernel in project.specs.kernels if kernel.name == "silu_multiply")
    other = replace(silu, name="gelu_multiply", function="gelu_multiply")
    more = replace(project, specs=replace(project.specs, kernels=(*project.specs.kernels, other)))
    assert list(kernel_proof.code_without_spec(more)) == [
        "gelu_multiply: no 'gelu_multiply' in strata/kernels/elementwise.hpp"
    ]
    found = list(kernel_proof.library_problems(more))
    assert found == [f"gelu_multiply.{name.isa}: level {name.isa} of the library lacks it" for name in SILU]


def test_an_instance_that_the_library_lacks_is_noticed(project: Project) -> None:
    """As when a level's table points at another level's instances."""
    specs = project.specs
    (spec,) = (spec for spec in specs.formats if spec.name == "q8_0")
    other = replace(spec, name="q9_0", layouts=())
    renamed = replace(project, specs=replace(specs, formats=(*specs.formats, other)))
    found = list(kernel_proof.library_problems(renamed))
    assert "rows_dot.q9_0.int8.t8.avx512vnni: level avx512vnni of the library lacks it" in found
    assert len(found) == 4 * 8


@pytest.mark.parametrize(
    ("file", "old", "new", "finding"),
    [
        (REFERENCES, "def combine(", "def combined(", f"combine: no reference {REFERENCES}::combine"),
        (
            PARITY_TESTS,
            "references.combine(",
            "references.linear(",
            "combine: its parity test does not compare with references.combine",
        ),
    ],
)
def test_a_missing_or_unused_reference_is_noticed(
    copy: Path, project: Project, file: str, old: str, new: str, finding: str
) -> None:
    edit(copy / file, old, new)
    assert list(kernel_proof.reference_problems(project, ["combine", "linear"])) == [finding]


def begin_of(kernel: str, test: str) -> str:
    """The first line of a parity test."""
    (head,) = re.findall(rf"^def test_{kernel}\(.*\n", test, re.MULTILINE)
    return str(head)


def here(project: Project, names: list[KernelName]) -> list[KernelName]:
    """Those that this CPU can run: the others are skipped with good reason."""
    return [name for name in names if not name.isa or name.isa in provider_isas(project)]


def provider_isas(project: Project) -> tuple[str, ...]:
    native: Any = find_provider({PATH_VARIABLE: str(project.package)}).native
    return tuple(native.ISAS)


def test_tests_that_do_not_run_an_instance_are_noticed(copy: Path, project: Project) -> None:
    """One is skipped, one leaves early, one runs another instance, one has lost a parameter."""
    path = copy / PARITY_TESTS
    text = path.read_text(encoding="utf-8")
    for kernel, line in [("checksum", 'pytest.skip("too slow")'), ("combine", "return")]:
        head = begin_of(kernel, text)
        text = text.replace(head, f"{head}    if name.kernel:\n        {line}\n")
    text = text.replace("kernels.silu_multiply(str(name)", 'kernels.silu_multiply("silu_multiply.generic"')
    text = text.replace("built_names(kernel), ids", 'built_names(kernel)[kernel == "quantize_input" :], ids')
    path.write_text(text, encoding="utf-8")
    dropped = KernelName("quantize_input", "", Activation.INT8, isa="generic")
    kept = replace(dropped, isa="avx2")
    names = [KernelName("checksum"), KernelName("combine"), *SILU, dropped, kept]
    assert list(kernel_proof.parity_problems(project, names)) == [
        "checksum: its parity test was skipped: too slow",
        "combine: its parity test never called it",
        *(f"{name}: its parity test never called it" for name in here(project, SILU[1:])),
        f"{dropped}: no parity test {PARITY_TESTS}::test_quantize_input[{dropped}]",
    ]


def test_missing_and_failing_tests_are_noticed_and_a_new_variant_demands_one(copy: Path, project: Project) -> None:
    path = copy / PARITY_TESTS
    text = path.read_text(encoding="utf-8")
    text = text.replace("references.combine(rows, weights, out)", "references.combine(rows, weights, -out)")
    text = re.sub(r'@instances_of\("checksum"\)\n.*', "", text, flags=re.DOTALL)
    path.write_text(text, encoding="utf-8")
    new = KernelName("silu_multiply", isa="avx10")
    names = [KernelName("checksum"), KernelName("combine"), *SILU, new]
    assert list(kernel_proof.parity_problems(project, names)) == [
        f"checksum: no parity test {PARITY_TESTS}::test_checksum[checksum]",
        "combine: its parity test fails",
        f"{new}: no parity test {PARITY_TESTS}::test_silu_multiply[{new}]",
    ]


def test_a_missing_benchmark_is_noticed(copy: Path, project: Project) -> None:
    edit(copy / "bench/kernel_jobs.py", "        silu_multiply,\n", "")
    found = list(kernel_proof.benchmark_problems(project, SILU))
    assert found == [f"{name}: no benchmark: {BENCHMARK} does not list it" for name in SILU]


def test_a_missing_row_of_the_docs_is_noticed(copy: Path, project: Project) -> None:
    page = copy / PAGE
    lines = page.read_text(encoding="utf-8").splitlines(keepends=True)
    page.write_text("".join(line for line in lines if not line.startswith("| `rows_dot.q4_k.")), encoding="utf-8")
    names = [KernelName("rows_dot", spec.name, spec.activation, 1, "avx2") for spec in project.specs.formats]
    assert list(kernel_proof.page_problems(project, names)) == [f"rows_dot.q4_k.int8_256.t1.avx2: no row in {PAGE}"]
