"""Finding a kernels package, and never importing one that is damaged or does not fit."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

import strata_runtime.discovery as discovery
import strata_runtime.provider as module
import strata_runtime.repair as repair
from strata_runtime import __version__
from strata_runtime.errors import UserError
from strata_runtime.gpus import Gpu, Gpus
from strata_runtime.knobs import resolve
from strata_runtime.native import ABI_VERSION
from strata_runtime.provider import PATH_VARIABLE, Provider, find_provider, make_pool, native_knobs
from support.compiled import compiled_provider

NAME = "strata_kernels_cpu_pretended"
FILES = {
    "__init__.py": "",
    "settings.py": "KNOBS = ()\nclass Settings: pass\n",
    "families.py": "FAMILIES = ('a family',)\n",
    "formats.py": "FORMATS = ('a format',)\n",
    "_native.py": f"ABI_VERSION = {ABI_VERSION}\nISA = 'pretended'\n",
}

MakePackage = Callable[..., Path]


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No other package is in sight: nothing installed, nothing built, and nothing of a former test imported."""
    monkeypatch.setattr(discovery, "entry_points", lambda group: EntryPoints(()))
    monkeypatch.setattr(discovery, "checkout", lambda: tmp_path / "checkout")
    monkeypatch.chdir(tmp_path)
    for name in [name for name in sys.modules if name.partition(".")[0] == NAME]:
        monkeypatch.delitem(sys.modules, name)


@pytest.fixture
def package(tmp_path: Path) -> MakePackage:
    """Write a package as `strata-gen build` seals it; `facts` replace those of its manifest."""

    def write(where: str = "build/cpu/pretended/package", files: Mapping[str, str] = FILES, **facts: object) -> Path:
        folder = tmp_path / where / NAME
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / name).write_text(text)
        hashes = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in files.items()}
        manifest = {
            "package": NAME,
            "backend": "cpu",
            "arch": "pretended",
            "key": "0123",
            "generator": __version__,
            "not_on": [],
            "cpu_flags": [],
            "python_abi": sysconfig.get_config_var("SOABI"),
            "abi_version": ABI_VERSION,
            "runs_on": ["pretended"],
            "files": hashes,
        }
        (folder / "manifest.json").write_text(json.dumps({**manifest, **facts}))
        return folder

    return write


Install = Callable[..., None]


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Install:
    """Have distributions, by name, own the package of a folder."""

    def own(folder: Path, *distributions: str, version: str = "1.0") -> None:
        points = []
        for name in distributions:
            point = EntryPoint(name, NAME, discovery.ENTRY_POINTS)
            vars(point)["dist"] = SimpleNamespace(name=name, version=version)
            points.append(point)
        monkeypatch.setattr(discovery, "entry_points", lambda group: EntryPoints(points))
        monkeypatch.syspath_prepend(str(folder.parent))

    return own


def found(**environ: str) -> Provider:
    return find_provider(environ)


# --- where packages are looked for


def test_nothing_anywhere_names_the_build_command() -> None:
    with pytest.raises(UserError, match="build one for this machine: strata-gen build --target cpu native"):
        found()


def test_what_a_provider_holds(package: MakePackage) -> None:
    provider = found(**{PATH_VARIABLE: str(package("anywhere"))})
    assert (provider.name, provider.backend, provider.arch) == (NAME, "cpu", "pretended")
    assert provider.families == ("a family",)
    assert provider.formats == ("a format",)
    assert provider.knobs == ()
    assert provider.settings_type.__name__ == "Settings"
    assert provider.native.ISA == "pretended"


def test_nothing_is_imported_before_it_is_asked_for(package: MakePackage) -> None:
    provider = found(**{PATH_VARIABLE: str(package(files={**FILES, "_native.py": "raise AssertionError"}))})
    assert NAME not in sys.modules
    assert provider.families == ("a family",)
    assert f"{NAME}._native" not in sys.modules


def test_the_variable_is_stronger_than_installed_and_built_ones(package: MakePackage) -> None:
    package()
    named = package("elsewhere")
    assert found(**{PATH_VARIABLE: str(named)}).folder == named


def test_a_package_for_another_gpu_is_passed_over_with_the_reason(
    package: MakePackage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "visible_gpus", lambda: Gpus((Gpu("NVIDIA A10", "sm_86"),)))
    gpu = package("build/cuda/sm_90/package", backend="cuda", arch="sm_90", runs_on=["sm_90"])
    with pytest.raises(
        UserError, match=r"this machine's GPU is NVIDIA A10, sm_86: strata-gen build --target cuda sm_86"
    ):
        found()
    cpu = package()
    assert (found().folder, found().why) == (cpu, "it is for CPUs, and none for a GPU fits this machine")
    named = found(**{PATH_VARIABLE: str(gpu)})
    assert (named.folder, named.why) == (gpu, f"{PATH_VARIABLE} names it")


def test_a_package_for_the_gpu_here_is_stronger_than_one_for_cpus(
    package: MakePackage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "visible_gpus", lambda: Gpus((Gpu("NVIDIA H200", "sm_90"),)))
    package()
    gpu = package("build/cuda/sm_90/package", backend="cuda", arch="sm_90", runs_on=["sm_90"])
    assert (found().folder, found().why) == (gpu, "this machine's GPU is NVIDIA H200, sm_90")


def test_each_installed_package_that_is_not_taken_says_why_in_one_line(
    package: MakePackage, install: Install, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "visible_gpus", lambda: Gpus((Gpu("NVIDIA A10", "sm_86"),)))
    gpu = package("site/gpu", backend="cuda", arch="sm_90", runs_on=["sm_90"])
    install(gpu, "strata-kernels-cuda-sm90")
    cpu = package()
    assert found().folder == cpu
    assert [record.getMessage() for record in caplog.records] == [
        f"strata: passed over {gpu}: it is for sm_90, and this machine's GPU is NVIDIA A10, sm_86: "
        "strata-gen build --target cuda sm_86"
    ]


def test_a_package_for_a_stronger_cpu_is_passed_over(package: MakePackage, install: Install) -> None:
    strong = package("site", cpu_flags=["sse2", "no_such_flag"])
    install(strong, "strata-kernels-cpu-pretended")
    with pytest.raises(UserError, match="this CPU lacks no_such_flag, which it needs"):
        found()
    built = package()
    assert found().folder == built


@pytest.mark.parametrize("value", ["", "  "])
def test_a_blank_variable_is_none(package: MakePackage, value: str) -> None:
    folder = package()
    assert found(**{PATH_VARIABLE: value}).folder == folder


def test_a_variable_that_leads_nowhere(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=rf"{PATH_VARIABLE}=nowhere: no manifest\.json there"):
        found(**{PATH_VARIABLE: "nowhere"})


def test_an_installed_one_is_found_without_importing_it(package: MakePackage, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = package("site", files={**FILES, "__init__.py": "raise AssertionError"})
    point = EntryPoint("cpu-pretended", NAME, discovery.ENTRY_POINTS)
    monkeypatch.setattr(discovery, "entry_points", lambda group: EntryPoints((point,)))
    monkeypatch.syspath_prepend(str(folder.parent))
    assert found().folder == folder


def test_an_entry_point_that_leads_nowhere_is_passed_over(
    package: MakePackage, monkeypatch: pytest.MonkeyPatch
) -> None:
    point = EntryPoint("gone", "strata_kernels_gone", discovery.ENTRY_POINTS)
    monkeypatch.setattr(discovery, "entry_points", lambda group: EntryPoints((point,)))
    folder = package()
    assert found().folder == folder


def test_an_installed_one_is_stronger_than_a_built_one(package: MakePackage, monkeypatch: pytest.MonkeyPatch) -> None:
    package()
    installed = package("site")
    point = EntryPoint("cpu-pretended", NAME, discovery.ENTRY_POINTS)
    monkeypatch.setattr(discovery, "entry_points", lambda group: EntryPoints((point,)))
    monkeypatch.syspath_prepend(str(installed.parent))
    assert found().folder == installed


def test_what_was_moved_aside_is_no_candidate(package: MakePackage) -> None:
    built = package()
    built.rename(built.with_name(f"{NAME}.damaged"))
    with pytest.raises(UserError, match="no kernels package is installed or built"):
        found()


@pytest.mark.parametrize("root", ["checkout/", ""])
def test_a_built_one_is_found_in_the_checkout_and_in_the_working_folder(package: MakePackage, root: str) -> None:
    folder = package(f"{root}build/cpu/pretended/package")
    assert found().folder == folder


def test_another_package_of_the_same_name_replaces_what_was_imported(package: MakePackage) -> None:
    first = package("one")
    assert found(**{PATH_VARIABLE: str(first)}).families == ("a family",)
    second = package("two", files={**FILES, "families.py": "FAMILIES = ('another',)\n"})
    assert found(**{PATH_VARIABLE: str(second)}).families == ("another",)


# --- packages that do not fit


def test_a_package_of_another_abi_is_refused_with_both_versions_and_the_command(package: MakePackage) -> None:
    package(abi_version=ABI_VERSION + 1)
    expected = (
        f"it has ABI version {ABI_VERSION + 1}, this runtime needs {ABI_VERSION}; "
        "rebuild it: strata-gen build --target cpu pretended"
    )
    with pytest.raises(UserError, match=expected):
        found()


def test_a_module_that_contradicts_its_manifest_is_refused(package: MakePackage) -> None:
    package(files={**FILES, "_native.py": "ABI_VERSION = 99"})
    with pytest.raises(UserError, match=f"the module has ABI version 99, this runtime needs {ABI_VERSION}"):
        _ = found().native


def test_a_package_for_another_python_is_refused(package: MakePackage) -> None:
    package(python_abi="cpython-27")
    with pytest.raises(UserError, match=r"it was built for Python cpython-27, this is .*; rebuild it"):
        found()


def test_tables_for_another_runtime_are_one_error(package: MakePackage) -> None:
    table = "from strata_runtime.families import Term\nFAMILIES = (Term(1, (), 'new'),)"
    package(files={**FILES, "families.py": table})
    with pytest.raises(
        UserError, match=r"'families' cannot be loaded: Term.*arguments.*; rebuild it: strata-gen build"
    ):
        _ = found().families


def test_a_module_that_cannot_be_imported_is_one_error(package: MakePackage) -> None:
    package(files={**FILES, "_native.py": "import a_library_that_is_not_there"})
    with pytest.raises(
        UserError, match=r"'_native' cannot be loaded: No module named .*; rebuild it: strata-gen build"
    ):
        _ = found().native


# --- damaged packages


def spoil(folder: Path, file: str = "_native.py") -> None:
    path = folder / file
    path.write_bytes(path.read_bytes()[:-1])


@pytest.mark.parametrize("file", [*FILES, "manifest.json"])
def test_a_truncated_file_is_noticed_and_nothing_imported(package: MakePackage, file: str) -> None:
    folder = package("installed")
    if (folder / file).stat().st_size == 0:
        (folder / file).write_text("x")
    else:
        spoil(folder, file)
    with pytest.raises(UserError, match=r"the kernels package is damaged; build it again: strata-gen build"):
        found(**{PATH_VARIABLE: str(folder)})
    assert NAME not in sys.modules


def test_a_missing_file_is_noticed(package: MakePackage) -> None:
    folder = package("installed")
    (folder / "_native.py").unlink()
    with pytest.raises(UserError, match=r"_native\.py: No such file or directory"):
        found(**{PATH_VARIABLE: str(folder)})


class Generator:
    """Stands for the generator's process: notes its commands, and builds when it is told how."""

    def __init__(self, build: Callable[[], object], code: int = 0) -> None:
        self.build, self.code, self.commands = build, code, list[list[str]]()

    def run(self, command: list[str], **_: object) -> Generator:
        self.commands.append(command[3:])
        self.build()
        return self

    @property
    def returncode(self) -> int:
        return self.code


def test_a_damaged_one_in_a_build_folder_is_moved_aside_and_rebuilt(
    package: MakePackage, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = package()
    spoil(folder)
    generator = Generator(package)
    monkeypatch.setattr(repair, "subprocess", generator)
    assert found().native.ISA == "pretended"
    assert generator.commands == [["build", "--target", "cpu", "pretended", "--out", str(tmp_path / "build")]]
    assert (folder.parent / f"{NAME}.damaged" / "_native.py").is_file()
    assert found().folder == folder  # what was moved aside is not taken for a package


def test_it_is_rebuilt_once_only(package: MakePackage, monkeypatch: pytest.MonkeyPatch) -> None:
    spoil(package())
    generator = Generator(lambda: spoil(package()))
    monkeypatch.setattr(repair, "subprocess", generator)
    with pytest.raises(UserError, match="the kernels package is damaged"):
        found()
    assert len(generator.commands) == 1


def test_a_rebuild_that_fails_is_one_error(package: MakePackage, monkeypatch: pytest.MonkeyPatch) -> None:
    spoil(package())
    monkeypatch.setattr(repair, "subprocess", Generator(lambda: None, code=1))
    with pytest.raises(
        UserError, match=r"rebuilding it failed: see above, then run: strata-gen build --target cpu pret"
    ):
        found()


def test_without_the_generator_it_is_left_alone(package: MakePackage, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = package()
    spoil(folder)
    monkeypatch.setattr(repair.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match="the kernels package is damaged"):
        found()
    assert folder.is_dir()


def test_looking_for_one_imports_neither_torch_nor_numpy() -> None:
    script = "import sys, strata_runtime.provider; print(sorted({'torch', 'numpy'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_named_folder_that_cannot_be_is_no_package() -> None:
    with pytest.raises(UserError, match="so it is no kernels package"):
        found(**{PATH_VARIABLE: "x" * 5000})


def test_a_system_that_refuses_so_many_threads_is_a_user_error() -> None:
    def refuse(_: object) -> None:
        raise RuntimeError("Resource temporarily unavailable")

    provider = SimpleNamespace(native=SimpleNamespace(make_pool=refuse), knobs=())
    with pytest.raises(UserError, match=r"Resource temporarily unavailable; lower pool\.threads"):
        make_pool(cast(Provider, provider), cast(Any, SimpleNamespace()))


@pytest.mark.native
def test_every_knob_reaches_native_code_and_reads_the_same_there() -> None:
    provider = compiled_provider()
    given = {"engine_prompt_chunk": 77, "pool_spin": "3ms", "engine_expert_format": "bf16"}
    settings = provider.settings_type.from_values(resolve(provider.knobs, environ={}, python=given).values)
    texts = dict(native_knobs(provider, settings))
    assert texts["engine.prompt_chunk"] == "77"
    assert texts["engine.expert_format"] == "bf16"
    assert {provider.native.parse_knob(name, text) for name, text in texts.items()} == set(texts.values())
    unset = {knob.name for knob in provider.knobs if knob.default is None}
    assert texts.keys() | unset == {knob.name for knob in provider.knobs if knob.affects != "compile"}
