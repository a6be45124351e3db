"""Programs behind `make gpu` and `make same-wheels`: what users get wrong, and how they are interrupted."""

import threading
from pathlib import Path

import pytest

from strata_gen.model.target import Backend
from strata_gen.paths import specs_root
from strata_gen.specs import load_specs
from support import gpu_targets, same_wheels


@pytest.mark.parametrize(
    ("arch", "says"),
    [("sm_91", "did you mean 'sm_9"), ("x86-64-v3", "x86-64-v3 is no target for a GPU; there are sm_")],
)
def test_an_architecture_that_is_none_is_not_passed_over(capsys, arch, says):
    with pytest.raises(SystemExit) as ended:
        gpu_targets.main([arch])
    assert ended.value.code == 2
    assert says in capsys.readouterr().err


def test_after_an_interrupt_no_further_source_is_compiled(monkeypatch, tmp_path):
    begun, goes_on = [], threading.Event()

    def compiled(_compiler, _target, _folder, source):
        begun.append(source)
        if len(begun) > 1:
            goes_on.wait(10)

    monkeypatch.setattr(gpu_targets, "compile_one", compiled)
    monkeypatch.setattr(gpu_targets, "default_jobs", lambda: 2)
    specs = load_specs((specs_root(),))
    found = gpu_targets.compile_all(specs, Path("none"), gpu_targets.declared(specs, Backend.HIP)[:2], tmp_path)
    next(found)
    threading.Timer(0.2, goes_on.set).start()
    with pytest.raises(KeyboardInterrupt):
        found.throw(KeyboardInterrupt)
    assert len(begun) <= 3


@pytest.mark.parametrize("target", [("cpu", "x86-64-v9"), ("cdua", "sm_90")])
def test_wheels_of_no_target_are_refused_in_the_words_of_the_build(capfd, target):
    assert same_wheels.main(["--target", *target]) == 2
    said = capfd.readouterr().err
    assert target[1 if target[0] == "cpu" else 0] in said
    assert "Traceback" not in said
