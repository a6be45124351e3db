"""Packages for HIP carry no HIP runtime: they find the process's own, on one that the test makes up."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from strata_gen.paths import runtime_root, specs_root
from strata_gen.resolve import find_target
from strata_gen.specs import load_specs
from support.device import generated_sources
from support.fake_hip import compile_fake_hip, with_hip, without_hip
from support.native_programs import Unit, compile_program

# Does what clang writes into the objects of two sources, with a kernel each.
MAIN = r"""
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#include "strata/device/query.hpp"
#include "strata/hip/runtime.hpp"
#include "strata/hip/topology.hpp"

extern "C" {
void** __hipRegisterFatBinary(void* binary);
void __hipRegisterFunction(void** handle, const void* address, char*, const char* name, unsigned, void*, void*, void*,
                           void*, int*);
void __hipUnregisterFatBinary(void** handle);
}

namespace {

struct Binary {
  unsigned magic;
  unsigned version;
  const void* code;
  const void* unused;
};

Binary binaries[] = {{0x48495046, 1, "one code", nullptr}, {0x48495046, 1, "two code", nullptr}};
const char addresses[2] = {};

void launch(int kernel) {
  void* argument = reinterpret_cast<void*>(0x1230 + kernel);
  void* args[] = {&argument};
  strata::hip::launch({"a_kernel", &addresses[kernel], 7, 96, 0, 0xabc0, args});
}

void act(const std::string& what) {
  if (what == "launch") launch(0);
  if (what == "other") launch(1);
  if (what == "load_all") strata::hip::load_all();
  if (what == "second") strata::hip::library().hipSetDevice(1);
  if (what == "query") {
    const strata::device::GpuFacts facts = strata::device::query(0);
    std::printf("%d %s '%s' %zu of %zu MiB, %s %s\n", facts.count, facts.name.c_str(), facts.arch.c_str(),
                facts.free_bytes >> 20, facts.total_bytes >> 20, facts.driver.c_str(), facts.runtime.c_str());
  }
  if (what == "query5") strata::device::query(5);
}

}  // namespace

int main(int count, char** words) {
  if (count == 4 && words[1] == std::string("arch")) {
    std::puts(strata::hip::arch_at(words[2], words[3]).c_str());
    return 0;
  }
  void** handles[2];
  for (int i = 0; i < 2; ++i) {
    handles[i] = __hipRegisterFatBinary(&binaries[i]);
    __hipRegisterFunction(handles[i], &addresses[i], nullptr, i == 0 ? "first" : "second", 0, nullptr, nullptr, nullptr,
                          nullptr, nullptr);
  }
  for (int i = 1; i < count; ++i) {
    try {
      act(words[i]);
    } catch (const std::exception& problem) {
      std::puts(problem.what());
    }
  }
  for (void** handle : handles) __hipUnregisterFatBinary(handle);
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hip")
    generated = generated_sources(folder / "generated", find_target(load_specs((specs_root(),)), "hip", "gfx1151"))
    main = folder / "main.cpp"
    main.write_text(MAIN)
    units = [Unit(path) for path in (main, *sorted((runtime_root() / "src/hip").glob("*.cpp")))]
    return compile_program("hip", units, (generated / "include", runtime_root() / "include"), "address,undefined")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_fake_hip(tmp_path_factory.mktemp("fake"))


def said(program: Path, environ: dict[str, str], *words: str) -> list[str]:
    environ = {**environ, "ASAN_OPTIONS": "detect_leaks=0:verify_asan_link_order=0"}
    done = subprocess.run([program, *words], env=environ, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def logged(program: Path, library: Path, tmp_path: Path, *words: str, **settings: str) -> list[str]:
    log = tmp_path / "log"
    assert said(program, with_hip(library, FAKE_HIP_LOG=str(log), **settings), *words) == []
    return log.read_text().splitlines()


LAUNCH = "launch first 7x1x1 of 96x1x1, 0 bytes, stream 0xabc0, argument 0x1230"


def test_a_launch_loads_its_code_once_and_passes_everything_on(program: Path, library: Path, tmp_path: Path) -> None:
    lines = logged(program, library, tmp_path, "launch", "launch")
    assert lines == ["load one  on 0", "find first in one ", LAUNCH, LAUNCH]


def test_each_device_has_its_own_code(program: Path, library: Path, tmp_path: Path) -> None:
    lines = logged(program, library, tmp_path, "launch", "second", "launch", FAKE_HIP_DEVICES="2")
    assert lines == [
        *("load one  on 0", "find first in one ", LAUNCH),
        *("load one  on 1", "find first in one ", LAUNCH),
    ]


def test_all_code_can_be_loaded_before_the_first_launch(program: Path, library: Path, tmp_path: Path) -> None:
    lines = logged(program, library, tmp_path, "load_all", "launch", "other")
    assert sorted(lines[:4]) == ["find first in one ", "find second in two ", "load one  on 0", "load two  on 0"]
    assert lines[4:] == [LAUNCH, LAUNCH.replace("first", "second").replace("0x1230", "0x1231")]


def test_without_a_runtime_one_line_says_so(program: Path, tmp_path: Path) -> None:
    for word in ("launch", "query"):
        (line,) = said(program, without_hip(tmp_path / "none"), word)
        assert line.startswith("there is no HIP runtime that can be loaded (libamdhip64.so, release 5, 6 or 7): ")
        assert line.endswith("install a torch that was made for ROCm (https://pytorch.org/get-started), or ROCm")


@pytest.mark.parametrize("name", ["libamdhip64.so", "libamdhip64.so.5", "libamdhip64.so.6"])
def test_any_release_is_found(program: Path, tmp_path: Path, name: str) -> None:
    assert said(program, with_hip(compile_fake_hip(tmp_path, name)), "launch") == []


def test_the_one_that_is_loaded_already_is_used_whatever_a_wheel_calls_it(program: Path, tmp_path: Path) -> None:
    loaded = compile_fake_hip(tmp_path, "libamdhip64-0a1b2c3d.so.6")
    environ = {**without_hip(tmp_path / "none"), "LD_PRELOAD": str(loaded)}
    assert said(program, environ, "launch") == []


def test_a_runtime_that_lacks_a_function_is_named(program: Path, tmp_path: Path) -> None:
    source, old = tmp_path / "old.c", tmp_path / "libamdhip64.so.7"
    source.write_text("int hipGetDeviceCount(int* count) { return *count = 0; }\n")
    subprocess.run(["cc", "-shared", "-fPIC", source, "-o", old], check=True)
    assert said(program, with_hip(old), "launch") == [
        f"the HIP runtime {old} has no hipGetDevice: install ROCm 5 or newer"
    ]


@pytest.mark.parametrize("settings", [{"FAKE_HIP_COUNT": "100"}, {"FAKE_HIP_DEVICES": "0"}])
def test_no_device_is_one_line(program: Path, library: Path, settings: dict[str, str]) -> None:
    (line,) = said(program, with_hip(library, **settings), "query")
    assert line.startswith("the HIP runtime sees no GPU: look at rocminfo, at HIP_VISIBLE_DEVICES")


def test_errors_carry_hips_own_text(program: Path, library: Path) -> None:
    assert said(program, with_hip(library, FAKE_HIP_LAUNCH="1"), "launch") == [
        "a_kernel: the launch failed: a fake error (hipErrorFake)"
    ]
    assert said(program, with_hip(library, FAKE_HIP_LOAD="209"), "launch") == [
        "this package has code for gfx1151, which the GPU does not take: a fake error (hipErrorFake)"
    ]
    assert said(program, with_hip(library, FAKE_HIP_COUNT="999"), "query") == [
        "the GPUs cannot be counted: a fake error (hipErrorFake)"
    ]


def test_facts_of_a_gpu_are_asked_of_the_runtime_and_all_code_is_loaded(
    program: Path, library: Path, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    environ = with_hip(library, FAKE_HIP_LOG=str(log))
    assert said(program, environ, "query") == ["1 Fake GPU 0 '' 3072 of 4096 MiB, 6.3 6.3"]
    assert sum(line.startswith("load") for line in log.read_text().splitlines()) == 2
    assert said(program, environ, "query5") == ["there is no GPU 5: numbers are from 0 to 0"]


@pytest.mark.parametrize(
    ("bus_id", "arch"), [("0000:c1:00.0", "gfx1151"), ("0001:03:00.0", "gfx90a"), ("0000:03:00.0", ""), ("what", "")]
)
def test_the_architecture_is_what_the_driver_lists_at_the_gpus_place(
    program: Path, tmp_path: Path, bus_id: str, arch: str
) -> None:
    for number, text in enumerate(
        (
            "gfx_target_version 0\nlocation_id 0\ndomain 0\n",
            f"gfx_target_version 110501\nlocation_id {0xC1 << 8}\ndomain 0\n",
            f"gfx_target_version 90010\nlocation_id {0x03 << 8}\ndomain 1\n",
        )
    ):
        node = tmp_path / "nodes" / str(number)
        node.mkdir(parents=True)
        (node / "properties").write_text(text)
    assert said(program, dict(os.environ), "arch", bus_id, str(tmp_path / "nodes")) == [arch]
    assert said(program, dict(os.environ), "arch", bus_id, str(tmp_path / "none")) == [""]
