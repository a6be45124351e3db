"""`extends`: what a target takes from its bases, and what it adds."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from strata_gen.diagnostics import SpecErrors
from strata_gen.errors import GeneratorError
from strata_gen.model.specset import SpecSet
from strata_gen.resolve import find_target

BASES = """
- name: gpu
  abstract: true
  help: not inherited
  aliases: []
  wave_size: {value: 32, source: guide}
  shared_bytes: {value: 49152, source: guide}
  dot: dp4a
  mapped_stores: system_fence
  features: [bf16]
  flags: [-first]
  compilers: [{family: nvcc, minimum: {value: "13.0", source: guide}}]
  denied: [{compiler: nvcc, first: 13.1, last: 13.1, reason: first reason, source: guide}]
- name: newer
  abstract: true
  extends: gpu
  shared_bytes: {value: 65536, source: guide}
  features: [fp8]
"""
LEAF = """
- name: sm_90
  extends: newer
  features: [clusters, fp8]
  flags: [-second]
  denied: [{compiler: nvcc, first: 13.3, last: 13.3.9, reason: second reason, source: guide}]
"""


def test_numbers_and_words_come_from_the_nearest_base_that_has_them(small_specs: Callable[..., SpecSet]) -> None:
    (target,) = small_specs(BASES + LEAF).targets
    assert (target.wave_size, target.shared_bytes, target.dot) == (32, 65536, "dp4a")
    assert target.shared_optin_bytes is None


def test_lists_of_capabilities_add_up_without_repeats(small_specs: Callable[..., SpecSet]) -> None:
    (target,) = small_specs(BASES + LEAF).targets
    assert target.features == ("bf16", "fp8", "clusters")
    assert target.flags == ("-first", "-second")
    assert [denied.reason for denied in target.compilers[0].denied] == ["first reason", "second reason"]


def test_names_of_devices_are_not_inherited(small_specs: Callable[..., SpecSet]) -> None:
    (target,) = small_specs(BASES + LEAF).targets
    assert (target.help, target.aliases, target.runs_on) == ("", (), ("sm_90",))


def test_an_abstract_base_cannot_be_built(small_specs: Callable[..., SpecSet]) -> None:
    with pytest.raises(GeneratorError, match="unknown cuda target 'newer'"):
        find_target(small_specs(BASES + LEAF), "cuda", "newer")


def test_a_base_that_nobody_extends_is_checked_all_the_same(small_specs: Callable[..., SpecSet]) -> None:
    with pytest.raises(SpecErrors) as caught:
        small_specs(BASES.replace("{value: 65536, source: guide}", "{value: 65536, source: gossip}"))
    assert [diagnostic.message for diagnostic in caught.value.diagnostics] == ["unknown source 'gossip'"]


def test_a_mistake_in_a_base_is_reported_once_however_many_extend_it(small_specs: Callable[..., SpecSet]) -> None:
    twice = BASES.replace("{value: 32, source: guide}", "{value: 48, source: guide}") + LEAF
    with pytest.raises(SpecErrors) as caught:
        small_specs(twice + "- {name: sm_100, extends: gpu}\n")
    assert len(caught.value.diagnostics) == 1


def test_a_package_suffix_is_derived_from_the_name(specs: SpecSet) -> None:
    suffixes = {target.name: target.package_suffix for target in specs.targets}
    picked = [suffixes[name] for name in ("sm_86", "gfx1151", "x86-64-v3", "native")]
    assert picked == ["sm86", "gfx1151", "x86_64_v3", "native"]
