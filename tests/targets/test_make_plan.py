"""`--set NAME=VALUE`: build-time values of a plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from strata_gen.errors import GeneratorError
from strata_gen.model.knob import KnobValue
from strata_gen.model.specset import SpecSet
from strata_gen.resolve import find_target, make_plan

KNOBS = """
- {name: kernel.tile, type: int, default: 4, range: {min: 1, max: 16}, affects: compile, output: identical, help: Rows., since: "0.1"}
- {name: kernel.checks, type: bool, default: false, affects: compile, output: identical, help: Checks., since: "0.1"}
- {name: kernel.style, type: enum, choices: [plain, fast], default: plain, affects: compile, output: identical, help: Style., since: "0.1"}
- {name: pool.spin, type: duration, default: 50us, affects: launch, output: identical, help: Spin., since: "0.1"}
"""  # noqa: E501 - one knob a line
TARGET = """
- name: sm_90
  wave_size: {value: 32, source: guide}
  dot: dp4a
  mapped_stores: system_fence
  compilers: [{family: nvcc, minimum: {value: "13.0", source: guide}}]
"""


@pytest.fixture
def plan_values(small_specs: Callable[..., SpecSet]) -> Callable[..., Mapping[str, KnobValue]]:
    def plan(target: str = TARGET, **given: str) -> Mapping[str, KnobValue]:
        specs = small_specs(target, knobs=KNOBS)
        names = {name.replace("__", "."): text for name, text in given.items()}
        return make_plan(specs, find_target(specs, "cuda", "sm_90"), names).compile_values

    return plan


def test_a_plan_holds_every_build_time_knob_and_no_other(plan_values: Callable[..., Mapping[str, KnobValue]]) -> None:
    assert plan_values() == {
        "kernel.tile": 4,
        "kernel.checks": False,
        "kernel.style": "plain",
    }


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        *(("kernel__tile", "8", 8), ("kernel__tile", "0x8", 8), ("kernel__checks", "true", True)),
        ("kernel__style", "fast", "fast"),
    ],
)
def test_values_are_read_as_in_a_spec(
    plan_values: Callable[..., Mapping[str, KnobValue]], name: str, text: str, value: KnobValue
) -> None:
    assert plan_values(**{name: text})[name.replace("__", ".")] == value


def test_a_targets_own_default_stands_between_the_knobs_and_what_is_set(
    plan_values: Callable[..., Mapping[str, KnobValue]],
) -> None:
    tuned = TARGET + "  knobs: {kernel.tile: 2}\n"
    assert plan_values(tuned)["kernel.tile"] == 2
    assert plan_values(tuned, kernel__tile="16")["kernel.tile"] == 16


@pytest.mark.parametrize(
    ("name", "text", "what", "mend"),
    [
        ("kernel__tile", "17", "'kernel.tile' cannot be set: .*at most 16", ""),
        ("kernel__tile", "010", "'kernel.tile' cannot be set: .*octal", ""),
        ("kernel__tile", "many", "'kernel.tile' cannot be set: .*whole number.*many", ""),
        ("kernel__tile", "", "'kernel.tile' is set to nothing", "--set kernel.tile=VALUE"),
        ("kernel__checks", "yes", "'kernel.checks' cannot be set: .*true or false", ""),
        ("kernel__style", "fsat", "'kernel.style' cannot be set: .*plain, fast", "did you mean 'fast'?"),
        ("kernel__tiel", "8", "unknown knob 'kernel.tiel'", "did you mean 'kernel.tile'?"),
        ("pool__spin", "1ms", "'pool.spin' is no build-time knob", "STRATA_POOL_SPIN=1ms or --pool-spin 1ms"),
    ],
)
def test_what_cannot_be_set_says_why(
    plan_values: Callable[..., Mapping[str, KnobValue]], name: str, text: str, what: str, mend: str
) -> None:
    with pytest.raises(GeneratorError, match=what) as caught:
        plan_values(**{name: text})
    assert mend in caught.value.mend
    assert caught.value.where == f"--set {name.replace('__', '.')}={text}"


def test_the_package_is_named_after_its_target(specs: SpecSet) -> None:
    names = [
        make_plan(specs, find_target(specs, backend, name), {}).package
        for backend, name in [("cuda", "sm_86"), ("hip", "gfx1151"), ("cpu", "x86-64-v3"), ("cpu", "native")]
    ]
    assert names == [
        "strata_kernels_cuda_sm86",
        "strata_kernels_hip_gfx1151",
        "strata_kernels_cpu_x86_64_v3",
        "strata_kernels_cpu_native",
    ]
