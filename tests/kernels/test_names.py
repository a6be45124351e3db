"""Canonical names: every instance has one, whatever the parts are called, and reading it gives the instance back."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from strata_gen.errors import GeneratorError
from strata_gen.model.format import Activation
from strata_gen.model.instances import built, instances
from strata_gen.model.kernel import Part
from strata_gen.model.kernel_name import Grammar, KernelName, default_values
from strata_gen.model.specset import SpecSet
from strata_gen.resolve import find_target

# Names that look like other parts are among them.
WORDS = st.sampled_from(["t1", "t8", "int8", "int8_256", "float", "i16", "avx2", "q4_k"]) | st.from_regex(
    r"[a-z][a-z0-9_]{0,6}", fullmatch=True
)


def words(least: int, most: int) -> st.SearchStrategy[list[str]]:
    return st.lists(WORDS, min_size=least, max_size=most, unique=True)


@st.composite
def spec_sets(draw: st.DrawFn, specs: SpecSet) -> SpecSet:
    """The project's specs with other names for kernels, formats, instruction sets and devices."""
    kernels = [replace(draw(st.sampled_from(specs.kernels)), name=name) for name in draw(words(1, 4))]
    formats = [
        replace(specs.formats[0], name=name, activation=draw(st.sampled_from(Activation))) for name in draw(words(1, 4))
    ]
    cpu, gpu = find_target(specs, "cpu", "x86-64-v2"), find_target(specs, "cuda", "sm_90")
    levels = [replace(cpu.levels[0], isa=isa) for isa in draw(words(1, 4))]
    targets = (replace(cpu, levels=tuple(levels)), *(replace(gpu, name=name) for name in draw(words(0, 3))))
    return replace(specs, kernels=tuple(kernels), formats=tuple(formats), targets=targets)


@given(data=st.data())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_reading_a_written_name_gives_it_back(specs: SpecSet, data: st.DataObject) -> None:
    grammar = Grammar(data.draw(spec_sets(specs)))
    names = list(grammar.all_names())
    texts = [str(name) for name in names]
    assert len(set(texts)) == len(texts)
    assert [grammar.parse(text) for text in texts] == names


@given(data=st.data())
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_so_does_a_name_at_a_device(specs: SpecSet, data: st.DataObject) -> None:
    grammar = Grammar(data.draw(spec_sets(specs)))
    assume(grammar.devices)
    for name in grammar.all_names():
        at_device = replace(name, isa=data.draw(st.sampled_from(grammar.devices)))
        assert grammar.parse(str(at_device)) == at_device


@given(data=st.data())
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_is_read_is_what_was_written_or_a_clear_error(specs: SpecSet, data: st.DataObject) -> None:
    grammar = Grammar(specs)
    known = [word for name in ("rows_dot.q4_k.int8_256.t5.avx2", "combine.sm_90") for word in name.split(".")]
    text = ".".join(data.draw(st.lists(st.sampled_from(known) | st.text(max_size=4), max_size=6)))
    try:
        assert str(grammar.parse(text)) == text
    except GeneratorError as problem:
        assert f"'{text}' names no kernel: " in problem.what


def test_the_parts_stand_in_the_order_of_the_grammar(specs: SpecSet) -> None:
    name = KernelName("rows_dot", "q4_k", Activation.INT8_256, 5, "avx512vnni")
    assert str(name) == "rows_dot.q4_k.int8_256.t5.avx512vnni"
    assert name.symbol == "rows_dot_q4_k_int8_256"
    assert [str(each) for each in Grammar(specs).all_names()].count(str(name)) == 1


def test_symbols_tell_apart_what_one_namespace_holds(specs: SpecSet) -> None:
    names = {replace(name, tokens=0, isa="") for name in Grammar(specs).all_names()}
    assert len({name.symbol for name in names}) == len(names)
    assert all(re.fullmatch(r"[a-z][a-z0-9_]*", name.symbol) for name in names)


def test_a_library_holds_every_instance_but_the_pruned_ones(specs: SpecSet) -> None:
    target, values = find_target(specs, "cpu", "x86-64-v2"), default_values(specs)
    held = set(built(specs, target, values))
    everything = [each for kernel in specs.kernels for each in instances(kernel, specs, target, values)]
    assert {each.name for each in everything if each.pruning is None} == held
    left_out = [each for each in everything if each.pruning is not None]
    assert left_out
    for each in left_out:
        assert (each.name.kernel, each.name.activation, each.name.isa) == ("rows_dot", "float", "avx512vnni")
        assert each.serves == replace(each.name, isa="avx512")
        assert each.serves in held


def test_fewer_tokens_make_fewer_instances(specs: SpecSet) -> None:
    target = find_target(specs, "cpu", "x86-64-v3")
    some = built(specs, target, {**default_values(specs), "window.max_tokens": 2})
    assert {name.tokens for name in some if name.kernel == "rows_dot"} == {1, 2}


def test_a_device_has_no_instances_by_instruction_set(specs: SpecSet) -> None:
    held = built(specs, find_target(specs, "cuda", "sm_90"), default_values(specs))
    assert "publish" in {name.kernel for name in held}
    assert {name.isa for name in held} <= {""}


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("", ["no kernel ''"]),
        ("rows_dott.q4_k.int8_256.t5.avx2", ["no kernel 'rows_dott' (did you mean 'rows_dot'?)"]),
        ("rows_dot.q4k.int8_256.t5.avx2", ["no format 'q4k' (did you mean 'q4_k'?)"]),
        ("rows_dot.q4_k.int8_265.t5.avx2", ["no activation 'int8_265' (did you mean 'int8_256'?)"]),
        ("rows_dot.q4_k.int8.t5.avx2", ["q4_k takes int8_256 inputs, not int8"]),
        ("rows_dot.q4_k.int8_256.t9.avx2", ["no tokens 't9': they are t1 to t8"]),
        ("rows_dot.q4_k.int8_256.t05.avx2", ["no tokens 't05': they are t1 to t8"]),
        ("rows_dot.q4_k.int8_256.5.avx2", ["no tokens '5': they are t1 to t8"]),
        (
            "rows_dot.q4_k.int8_256.t5.avx5",
            ["no instruction set or GPU target 'avx5' (did you mean 'avx512'?)"],
        ),
        ("quantize_input.float.avx2", ["no activation 'float'"]),
        ("silu_multiply.avx2.t1", ["'t1' is one part too many"]),
        ("combine.avx2", ["no instruction set or GPU target 'avx2'"]),
        ("rows_dot.q4_k.int8_256", ["tokens and isa left out"]),
        (
            "rows_dot.q4k.int8_256.t9.avx5",
            [
                "no format 'q4k' (did you mean 'q4_k'?)",
                "no tokens 't9': they are t1 to t8",
                "no instruction set or GPU target 'avx5' (did you mean 'avx512'?)",
            ],
        ),
    ],
)
def test_every_wrong_part_is_named_with_the_nearest_right_one(specs: SpecSet, text: str, problems: list[str]) -> None:
    with pytest.raises(GeneratorError) as caught:
        Grammar(specs).parse(text)
    assert caught.value.what == f"'{text}' names no kernel: {', '.join(problems)}"


def test_kernels_made_of_others_vary_as_they_do(specs: SpecSet) -> None:
    parts = {kernel.name: kernel.parts for kernel in specs.kernels}
    assert parts["rows_dot"] == (Part.FORMAT, Part.ACTIVATION, Part.TOKENS, Part.ISA)
    assert parts["linear"] == parts["moe_experts"] == (Part.FORMAT, Part.ACTIVATION, Part.ISA)
    assert parts["combine"] == parts["checksum"] == ()
