"""Failures: the first real line, and a hint that tells one kind from another."""

from __future__ import annotations

from pathlib import Path

import pytest

from strata_gen.failures import BuildFailure, first_error, hint_for, with_origins

CODE = """\
FAILED: CMakeFiles/a.dir/a.cpp.o
/usr/bin/c++ -o a.o -c /t/tree/runtime/src/a.cpp
/t/tree/runtime/src/a.cpp: In function 'int f()':
/t/tree/runtime/src/a.cpp:3:5: error: 'x' was not declared in this scope
/t/tree/runtime/src/a.cpp:9:1: error: expected '}' at end of input
ninja: build stopped: subcommand failed."""
HEADER = """\
/t/tree/src/b.cpp:1:10: fatal error: strata/none.hpp: No such file or directory
compilation terminated."""
PYTHON = "/t/tree/runtime/src/bindings.cpp:2:10: fatal error: Python.h: No such file or directory"
KILLED = "c++: fatal error: Killed signal terminated program cc1plus\ncompilation terminated."
CODE_137 = "FAILED: [code=137] CMakeFiles/a.dir/a.cpp.o"
LINK = """\
/usr/bin/ld: a.o: in function `f':
a.cpp:(.text+0x5): undefined reference to `strata::missing()'
collect2: error: ld returned 1 exit status"""
DISK = "/t/a.cpp:1: fatal error: error writing to /tmp/cc.s: No space left on device\ncompilation terminated."
FLAG = "c++: error: unrecognized command-line option '-mavx10'"
CRASH = "/t/a.cpp:3:1: internal compiler error: Segmentation fault"
LIMIT = "{standard input}: fatal error: can't write 12 bytes: File too large"
IMPORT = "ImportError: /t/_native.so: undefined symbol: _ZN6strata7missingEv"
ILLEGAL = "ended by SIGILL"


CMAKE = """\
-- Detecting CXX compiler ABI info - failed
CMake Error at CMakeLists.txt:44 (find_package):
  Could not find a package configuration file provided by "pybind11"

-- Configuring incomplete, errors occurred!"""
CMAKE_COMPILER = """\
CMake Error at /usr/share/cmake/Modules/CMakeTestCXXCompiler.cmake:63 (message):
  The C++ compiler is not able to compile a simple test program.
    c++: error: bad value 'nonsense' for '-march=' switch"""


@pytest.mark.parametrize(
    ("output", "line"),
    [
        (
            CMAKE,
            "CMake Error at CMakeLists.txt:44 (find_package): Could not find a package configuration file provided "
            'by "pybind11"',
        ),
        (CMAKE_COMPILER, "c++: error: bad value 'nonsense' for '-march=' switch"),
        (CODE, "/t/tree/runtime/src/a.cpp:3:5: error: 'x' was not declared in this scope"),
        (HEADER, "/t/tree/src/b.cpp:1:10: fatal error: strata/none.hpp: No such file or directory"),
        (LINK, "a.cpp:(.text+0x5): undefined reference to `strata::missing()'"),
        (KILLED, "c++: fatal error: Killed signal terminated program cc1plus"),
        ("something odd\n\n", "something odd"),
        ("", "no output"),
    ],
)
def test_the_first_real_error_is_shown(output: str, line: str) -> None:
    assert first_error(output.splitlines()) == line


def test_each_kind_of_failure_looks_different() -> None:
    outputs = [HEADER, PYTHON, KILLED, LINK, DISK, FLAG, CRASH, LIMIT, ILLEGAL]
    hints = [hint_for(output.splitlines()) for output in outputs]
    assert all(hints) and len(set(hints)) == len(outputs)


@pytest.mark.parametrize(
    ("output", "word"),
    [
        (KILLED, "--jobs 1"),
        (CODE_137, "--jobs 1"),
        (PYTHON, "python3-dev"),
        (DISK, "disk is full"),
        (LIMIT, "ulimit"),
        (LINK, "link"),
        (IMPORT, "link"),
        (FLAG, "CXX"),
        (ILLEGAL, "CPU"),
    ],
)
def test_the_hint_says_what_to_do(output: str, word: str) -> None:
    assert word in hint_for(output.splitlines())


def test_a_plain_error_in_the_code_needs_no_hint() -> None:
    assert hint_for(CODE.splitlines()) == ""


def test_paths_of_the_tree_become_the_files_that_one_would_edit() -> None:
    manifest = {
        "runtime/src/a.cpp": {"origin": "runtime/src/a.cpp", "template": ""},
        "src/b.cpp": {"origin": "", "template": "b.cpp.j2"},
    }
    tree = Path("/t/tree")
    assert with_origins("/t/tree/runtime/src/a.cpp:3:5: error: x", tree, manifest) == "runtime/src/a.cpp:3:5: error: x"
    assert with_origins("/t/tree/src/b.cpp:1:1: error: x", tree, manifest).endswith(
        "[generated from templates/b.cpp.j2]"
    )
    assert with_origins("/usr/include/c.h:1: error: x", tree, manifest) == "/usr/include/c.h:1: error: x"


def test_a_failure_shows_line_hint_rerun_and_log() -> None:
    shown = BuildFailure("a.cpp:1: error: x", hint="h", rerun="ninja -C x", log=Path("logs/build.log")).render()
    assert [line.split(":")[0].strip() for line in shown.splitlines()] == ["build failed", "hint", "rerun", "log"]


def test_clangs_own_summaries_are_not_the_error() -> None:
    output = """\
lld: error: undefined hidden symbol: strata::missing()
clang++-19: error: amdgcn-link command failed with exit code 1 (use -v to see invocation)"""
    assert first_error(output.splitlines()) == "lld: error: undefined hidden symbol: strata::missing()"
    assert first_error([*reversed(output.splitlines())]) == "lld: error: undefined hidden symbol: strata::missing()"
