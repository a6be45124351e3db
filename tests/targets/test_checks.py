"""What is wrong with targets only when they are seen together with other files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from strata_gen.diagnostics import SpecErrors
from strata_gen.model.specset import SpecSet
from strata_gen.paths import specs_root
from strata_gen.specs import load_specs

TARGET = """
- name: sm_90
  wave_size: {value: 32, source: guide}
  dot: dp4a
  mapped_stores: system_fence
  compilers: [{family: nvcc, minimum: {value: "13.0", source: guide}}]
"""
KNOB = """
- name: pool.threads
  type: int
  default: 1
  range: {min: 1, max: 64}
  affects: launch
  output: identical
  help: Workers.
  since: "0.1"
"""


def codes(load: Callable[[], SpecSet]) -> list[tuple[str, int]]:
    with pytest.raises(SpecErrors) as caught:
        load()
    return [(found.code, found.span.line) for found in caught.value.diagnostics]


@pytest.mark.parametrize("value", ["many", "65", "0"])
def test_a_targets_default_must_fit_its_knob(small_specs: Callable[..., SpecSet], value: str) -> None:
    targets = TARGET + f"  knobs: {{pool.threads: {value}}}\n"
    assert codes(lambda: small_specs(targets, knobs=KNOB)) == [("T033", 11)]


def test_a_targets_default_that_fits_is_kept_as_written(small_specs: Callable[..., SpecSet]) -> None:
    (target,) = small_specs(TARGET + "  knobs: {pool.threads: 8}\n", knobs=KNOB).targets
    default = target.knob_default("pool.threads")
    assert default is not None
    assert default.value == 8
    assert target.knob_default("pool.spin") is None


def test_a_second_folder_of_specs_cannot_declare_a_target_again(tmp_path: Path) -> None:
    more = tmp_path / "more" / "targets"
    more.mkdir(parents=True)
    header = "backend: cuda\nsources:\n  guide: {title: Programming Guide}\ntargets:\n"
    (more / "mine.yaml").write_text(header + TARGET.strip("\n").replace("sm_90", "sm_86") + "\n")
    assert [code for code, _ in codes(lambda: load_specs((specs_root(), more.parent)))] == ["T031"]


def test_a_second_folder_of_specs_can_add_a_target(tmp_path: Path) -> None:
    more = tmp_path / "more" / "targets"
    more.mkdir(parents=True)
    header = "backend: cuda\nsources:\n  guide: {title: Programming Guide}\ntargets:\n"
    (more / "mine.yaml").write_text(header + TARGET.strip("\n").replace("sm_90", "sm_130") + "\n  runs_on: [sm_86]\n")
    specs = load_specs((specs_root(), more.parent))
    assert "sm_130" in {target.name for target in specs.targets}


def test_a_file_without_figures_needs_no_sources(tmp_path: Path) -> None:
    more = tmp_path / "more" / "targets"
    more.mkdir(parents=True)
    (more / "mine.yaml").write_text("backend: cpu\ntargets:\n  - {name: mine, abstract: true, dot: none}\n")
    load_specs((specs_root(), more.parent))


def test_a_target_may_extend_a_base_of_another_folder(tmp_path: Path) -> None:
    more = tmp_path / "more" / "targets"
    more.mkdir(parents=True)
    (more / "mine.yaml").write_text("backend: cuda\ntargets:\n  - {name: sm_130, extends: hopper, flags: [-G]}\n")
    targets = {target.name: target for target in load_specs((specs_root(), more.parent)).targets}
    assert targets["sm_130"].shared_optin_bytes == targets["sm_90"].shared_optin_bytes
    assert targets["sm_130"].facts == targets["sm_90"].facts
    assert targets["sm_130"].flags == ("-G",)


def test_a_base_of_another_folder_cannot_be_declared_again(tmp_path: Path) -> None:
    more = tmp_path / "more" / "targets"
    more.mkdir(parents=True)
    (more / "mine.yaml").write_text("backend: cuda\ntargets:\n  - {name: hopper, abstract: true}\n")
    assert [code for code, _ in codes(lambda: load_specs((specs_root(), more.parent)))] == ["T023"]
