"""Too little memory is one line, whatever a library makes of it."""

from __future__ import annotations

import errno
import resource

import pytest

SHORT = [
    MemoryError(),
    MemoryError("no 5 bytes of memory"),
    OSError(errno.ENOMEM, "Cannot allocate memory"),
    RuntimeError("std::bad_alloc"),
    RuntimeError("[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory: you tried"),
    RuntimeError("can't start new thread"),
    ImportError("libtorch_cpu.so: failed to map segment from shared object"),
]


def failing(problem, cause=None):
    def fail(*_):
        raise problem from cause

    return fail


def limits(monkeypatch, address_space):
    found = {resource.RLIMIT_AS: address_space, resource.RLIMIT_DATA: resource.RLIM_INFINITY}
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (found[kind], resource.RLIM_INFINITY))


@pytest.mark.parametrize("problem", SHORT, ids=repr)
def test_it_is_one_line_and_exit_code_2(strata, folder, monkeypatch, problem):
    limits(monkeypatch, resource.RLIM_INFINITY)
    monkeypatch.setattr("strata_runtime.engine.Model.load", failing(problem))
    done = strata("generate", "--model", folder, "--prompt", "abc", "--quiet")
    assert (done.exit_code, done.stdout, done.stderr) == (2, "", "Error: not enough memory\n")


def test_the_limit_of_the_process_is_told(strata, folder, monkeypatch):
    limits(monkeypatch, 600_000 << 10)
    monkeypatch.setattr("strata_runtime.engine.Model.load", failing(RuntimeError("no module"), MemoryError()))
    done = strata("generate", "--model", folder, "--prompt", "abc", "--quiet")
    assert done.stderr == "Error: not enough memory (limit 585.9 MiB: see ulimit -v and -d)\n"


def test_a_command_whose_import_fails_for_it(strata, monkeypatch):
    monkeypatch.setattr("strata_runtime.cli.main.import_module", failing(MemoryError()))
    done = strata("eval", "kl", "a", "b")
    assert (done.exit_code, done.stderr.startswith("Error: not enough memory")) == (2, True)


@pytest.mark.parametrize("problem", [RuntimeError("wrong shape"), OSError(errno.EACCES, "no"), ValueError("bad_alloc")])
def test_other_errors_stay_what_they_are(strata, folder, monkeypatch, problem):
    monkeypatch.setattr("strata_runtime.engine.Model.load", failing(problem))
    done = strata("generate", "--model", folder, "--prompt", "abc")
    assert done.exception is problem
