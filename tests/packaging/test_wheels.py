"""Wheels: what is in them, what their names promise, and what is refused before one is written."""

from __future__ import annotations

import configparser
import ctypes
import hashlib
import io
import re
import struct
import subprocess
import zipfile
from base64 import urlsafe_b64encode
from dataclasses import replace
from email.parser import BytesParser
from email.policy import EmailPolicy
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.tags import parse_tag, sys_tags
from packaging.utils import parse_wheel_filename

from strata_gen import __version__
from strata_gen.artifact import read_facts
from strata_gen.errors import GeneratorError
from strata_gen.paths import project_root, specs_root
from strata_gen.progress import Reporter
from strata_gen.resolve import Plan, find_target, make_plan
from strata_gen.specs import load_specs
from strata_gen.wheel.archive import Wheel, record_paths, wheel_bytes, write_wheel
from strata_gen.wheel.checks import check_disjoint, check_import, check_module
from strata_gen.wheel.code_objects import architectures
from strata_gen.wheel.elf import SharedObject, read_shared_object
from strata_gen.wheel.kernels import find_module, kernels_wheel, read_module, refuse_for_this_machine
from strata_gen.wheel.platform_tag import foreign_libraries, platform_tag
from strata_gen.wheel.project import project_wheel
from support.small_project import Builds, SmallProject, make_small_project

SPECS = load_specs((specs_root(),))
ORDINARY = SharedObject(
    "x86_64", ("libstdc++.so.6", "libc.so.6"), frozenset({"GLIBC_2.34"}), frozenset(), frozenset(), {}
)


@pytest.fixture(scope="module")
def wheel(small: SmallProject, package: Path) -> Wheel:
    return kernels_wheel(small.tree().plan, package, read_module(package))


def library_of_mathematics() -> Path:
    """The file of libm, which asks libc for versions of symbols."""
    ctypes.CDLL("libm.so.6")
    lines = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    return next(Path(path) for line in lines if re.search(r"/libm\.so\.6$", path := line.rpartition(" ")[2]))


def plan_of(backend: str, arch: str) -> Plan:
    return make_plan(SPECS, find_target(SPECS, backend, arch), {})


def opened(wheel: Wheel, **environ: str) -> zipfile.ZipFile:
    return zipfile.ZipFile(io.BytesIO(wheel_bytes(wheel, environ)))


def metadata(wheel: Wheel):
    return BytesParser(policy=EmailPolicy(utf8=True)).parsebytes(wheel.information["METADATA"])


# --- a kernels package


def test_its_names_follow_from_the_target(wheel: Wheel) -> None:
    name, version, _, tags = parse_wheel_filename(wheel.filename)
    assert (name, str(version)) == ("strata-kernels-cpu-x86-64-v2", __version__)
    assert tags & set(sys_tags()), "the machine that built it cannot install it"
    points = configparser.ConfigParser()
    points.read_string(wheel.information["entry_points.txt"].decode())
    assert dict(points["strata.kernels"]) == {"cpu-x86-64-v2": "strata_kernels_cpu_x86_64_v2"}
    assert metadata(wheel).get_all("Requires-Dist") == [f"strata-runtime=={__version__}"]


def test_it_holds_the_package_as_it_was_built(wheel: Wheel, package: Path) -> None:
    assert wheel.files[f"{package.name}/{find_module(package).name}"] == find_module(package).read_bytes()
    facts = read_facts(package)
    assert facts is not None
    assert {"arch", "compiler", "gpu_compiler", "compile_knobs", "abi_version", "files"} <= facts.keys()
    assert set(wheel.files) == {f"{package.name}/{name}" for name in (*facts["files"], "manifest.json")}


def test_record_has_the_hash_of_every_file(wheel: Wheel) -> None:
    archive = opened(wheel)
    assert archive.namelist()[-1].endswith(".dist-info/RECORD")
    rows = [line.rsplit(",", 2) for line in archive.read(archive.namelist()[-1]).decode().splitlines()]
    assert [row[0] for row in rows] == archive.namelist()
    for path, digest, size in rows[:-1]:
        data = archive.read(path)
        expected = urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        assert (digest, size) == (f"sha256={expected}", str(len(data)))


def test_the_bytes_are_the_same_wherever_and_whenever_it_is_built(
    small: SmallProject, wheel: Wheel, tmp_path: Path
) -> None:
    other = make_small_project(tmp_path / "another folder")
    built = Builds(other, tmp_path / "home", Reporter(io.StringIO()))(cache=False).path
    again = kernels_wheel(other.tree().plan, built, read_module(built))
    assert wheel_bytes(again, {}) == wheel_bytes(wheel, {})


def test_the_time_inside_is_that_of_the_variable_or_none(wheel: Wheel) -> None:
    assert {entry.date_time for entry in opened(wheel).infolist()} == {(1980, 1, 1, 0, 0, 0)}
    at = opened(wheel, SOURCE_DATE_EPOCH="1700000000").infolist()
    assert {entry.date_time for entry in at} == {(2023, 11, 14, 22, 13, 20)}
    assert {entry.external_attr >> 16 for entry in at} == {0o100644}
    with pytest.raises(GeneratorError, match="SOURCE_DATE_EPOCH is no number of seconds"):
        opened(wheel, SOURCE_DATE_EPOCH="today")


def test_it_imports_without_a_gpu_and_without_a_home(small: SmallProject, wheel: Wheel, tmp_path: Path) -> None:
    said = io.StringIO()
    check_import(wheel_bytes(wheel, {}), small.tree().plan, tmp_path / "log", Reporter(said))
    assert not (tmp_path / "log").exists()


def test_a_damaged_package_is_not_packed(small: SmallProject, package: Path) -> None:
    module = find_module(package)
    whole = module.read_bytes()
    try:
        module.write_bytes(whole[:-1])
        with pytest.raises(GeneratorError, match="the built package is damaged"):
            kernels_wheel(small.tree().plan, package, ORDINARY)
    finally:
        module.write_bytes(whole)


def test_what_this_machine_happens_to_be_is_no_wheel() -> None:
    with pytest.raises(GeneratorError, match="a wheel is for others"):
        refuse_for_this_machine(plan_of("cpu", "native"))


# --- what a module asks of a system


def test_the_tables_of_a_module_are_read(package: Path) -> None:
    module = read_module(package)
    assert "PyInit__native" in module.exported
    assert "PyModule_Create2" in module.imported
    library = library_of_mathematics()
    other = read_shared_object(library.read_bytes(), library.name)
    assert "libc.so.6" in other.needed
    assert any(version.startswith("GLIBC_2.") for version in other.versions)
    assert foreign_libraries(other.needed) == ()


@pytest.mark.parametrize("data", [b"", b"\x7fELF\x01\x01", b"\x7fELF\x02\x01" + b"\xff" * 200])
def test_what_is_no_module_is_one_error(data: bytes) -> None:
    with pytest.raises(GeneratorError, match="ELF file"):
        read_shared_object(data, "x.so")


@pytest.mark.parametrize(
    ("versions", "tag"),
    [
        ({"GLIBC_2.2.5", "GLIBC_2.14"}, "manylinux_2_17_x86_64"),
        ({"GLIBC_2.34", "GLIBCXX_3.4.21"}, "manylinux_2_34_x86_64"),
        ({"GLIBC_2.17", "GLIBCXX_3.4.30", "CXXABI_1.3.13"}, "manylinux_2_35_x86_64"),
        ({"GLIBC_2.36", "GLIBCXX_3.4.30", "GCC_3.4"}, "manylinux_2_36_x86_64"),
        ({"GLIBC_2.34", "GLIBCXX_3.4.99"}, "linux_x86_64"),
        ({"GLIBC_2.34", "OTHER_1"}, "linux_x86_64"),
    ],
)
def test_the_platform_tag_promises_what_the_symbols_need(versions: set[str], tag: str) -> None:
    assert platform_tag(replace(ORDINARY, versions=frozenset(versions))) == tag
    assert parse_tag(f"cp311-cp311-{tag}")


def test_a_library_that_a_machine_may_lack_is_refused() -> None:
    module = replace(ORDINARY, needed=("libc.so.6", "libcuda.so.1"))
    with pytest.raises(GeneratorError, match=r"needs libcuda\.so\.1: it could not be imported where that is missing"):
        check_module(module, plan_of("cpu", "x86-64-v3"))


@pytest.mark.parametrize("side", ["imported", "exported"])
def test_symbols_of_torch_are_refused(side: str) -> None:
    names = frozenset({"_ZN3c105Error4whatEv"})
    module = replace(ORDINARY, **{side: names})
    with pytest.raises(GeneratorError, match="has symbols of torch"):
        check_module(module, plan_of("cpu", "x86-64-v3"))


# --- device code


def cuda_code(*entries: tuple[int, int, int]) -> bytes:
    """One container per entry of kind, number and flags, as the toolkit lays them out."""
    containers = []
    for kind, number, flags in entries:
        entry = struct.pack("<HHIQ12xI8xQ", kind, 0x101, 64, 8, number, flags).ljust(64, b"\0") + bytes(8)
        containers.append(struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(entry)) + entry + bytes(8))
    return b"".join(containers)


def hip_code(*targets: str) -> bytes:
    """Code objects, each with the note that names its target."""
    return b"".join(
        b"\x7fELF" + bytes(60) + b"\xaeamdhsa.target" + bytes([0xA0, len(name)]) + name.encode() for name in targets
    )


def test_architectures_are_read_out_of_the_code_itself() -> None:
    section = cuda_code((2, 90, 0x11), (2, 120, 0x1000011 | 1 << 20), (2, 120, 0x1000011 | 1 << 21), (1, 86, 0x11))
    module = replace(ORDINARY, sections={".nv_fatbin": section})
    assert architectures(module) == {"sm_90", "sm_120a", "sm_120f", "compute_86"}
    objects = hip_code("amdgcn-amd-amdhsa--gfx1151", "amdgcn-amd-amdhsa--gfx90a")
    assert architectures(replace(ORDINARY, sections={".hip_fatbin": objects})) == {"gfx1151", "gfx90a"}


def test_code_that_cannot_be_looked_into_is_one_error() -> None:
    for sections in ({".hip_fatbin": b"CCOB" + bytes(60)}, {".nv_fatbin": cuda_code((2, 90, 0))[:30]}):
        with pytest.raises(GeneratorError, match="cannot be read"):
            architectures(replace(ORDINARY, sections=sections))


@pytest.mark.parametrize(
    ("backend", "arch", "section", "code"),
    [
        ("cuda", "sm_90", ".nv_fatbin", cuda_code((2, 90, 0x11), (2, 90, 0x11))),
        ("hip", "gfx1151", ".hip_fatbin", hip_code(*["amdgcn-amd-amdhsa--gfx1151"] * 2)),
    ],
)
def test_only_the_declared_architecture_may_be_inside(backend: str, arch: str, section: str, code: bytes) -> None:
    module = replace(ORDINARY, sections={section: code})
    check_module(module, plan_of(backend, arch))
    with pytest.raises(GeneratorError, match=f"has device code for {arch}, and is declared for CPUs alone"):
        check_module(module, plan_of("cpu", "x86-64-v3"))
    with pytest.raises(GeneratorError, match="has device code for nothing, and is declared for"):
        check_module(ORDINARY, plan_of(backend, arch))


# --- several wheels


def test_no_two_of_our_wheels_share_a_file(wheel: Wheel, tmp_path: Path) -> None:
    parts = [project_wheel(project_root(), "core"), project_wheel(project_root(), "generator"), wheel]
    paths = [write_wheel(each, wheel_bytes(each, {}), tmp_path) for each in parts]
    records = [record_paths(path) for path in paths]
    assert sum(map(len, records)) == len(frozenset.union(*records))
    clash = replace(wheel, name="strata-kernels-other")
    with pytest.raises(GeneratorError, match="both hold strata_kernels_cpu_x86_64_v2/"):
        check_disjoint(clash, tmp_path)
    check_disjoint(wheel, tmp_path)  # itself, of an earlier build


# --- the two Python packages


@pytest.mark.parametrize(
    ("key", "name", "script", "first"),
    [("core", "strata-runtime", "strata", "torch"), ("generator", "strata-gen", "strata-gen", "jinja2")],
)
def test_each_package_has_its_own_dependencies_and_command(key: str, name: str, script: str, first: str) -> None:
    made = project_wheel(project_root(), key)
    assert (made.name, made.tag) == (name, "py3-none-any")
    needs = {Requirement(text).name for text in metadata(made).get_all("Requires-Dist") if "extra" not in text}
    assert first in needs
    assert ("torch" in needs) is (key == "core")
    points = configparser.ConfigParser()
    points.read_string(made.information["entry_points.txt"].decode())
    assert list(points["console_scripts"]) == [script]


def test_the_generator_has_all_that_it_builds_from() -> None:
    files = project_wheel(project_root(), "generator").files
    inside = {path.removeprefix("strata_gen/data/") for path in files if path.startswith("strata_gen/data/")}
    root = project_root()
    wanted = [root / "CMakeLists.txt", *(root / "specs").rglob("*.yaml"), *(root / "templates").rglob("*.j2")]
    wanted += [path for path in (root / "runtime").rglob("*") if path.suffix in (".hpp", ".cpp", ".cu")]
    assert {path.relative_to(root).as_posix() for path in wanted} <= inside
    assert not [path for path in files if path.endswith((".pyc", ".so")) or "strata_runtime" in path]


def test_the_runtime_has_every_file_of_its_package() -> None:
    tracked = subprocess.run(
        ["git", "ls-files", "-z", "strata_runtime"], cwd=project_root() / "runtime", capture_output=True
    )
    if tracked.returncode:
        pytest.skip("not a checkout: what is tracked is unknown")
    names = {name.decode() for name in tracked.stdout.split(b"\0") if name}
    assert names <= set(project_wheel(project_root(), "core").files)
    assert "strata_runtime/serve/page.html" in names
