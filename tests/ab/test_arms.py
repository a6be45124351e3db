"""Arms as they are written, and everything that they may not be."""

from dataclasses import replace

import pytest

from strata_runtime.ab.arms import make_arms, scale_arm
from strata_runtime.errors import UserError
from strata_runtime.knobs import Condition
from support.fake_engine import KNOBS, knob

BUILT_IN = replace(knob("window.max_tokens", "int", 8), affects="compile")
DRAFTED = Condition(lambda values: values["window.draft"] != "none", ("window.draft",), 'window.draft != "none"')
ALL = (
    *[replace(each, ignored_unless=DRAFTED) if each.name == "window.width" else each for each in KNOBS],
    BUILT_IN,
    knob("provider.path", "path", None),
    knob("debug.parts", "list", ()),
)


def arms(*given, environ=None, flags=None):
    return make_arms(given, ALL, environ or {}, flags or {})


def test_names_and_variables_name_the_same_knob():
    off, one, other = arms("off:", "one:verify.ecap=12,pool.threads=2", "other:STRATA_VERIFY_ECAP=12")
    assert off.texts == off.settings == {}
    assert one.settings == {"verify.ecap": "12", "pool.threads": "2"}
    assert other.texts == {"verify.ecap": "12"}


def test_arms_are_over_what_they_share():
    environ, flags = {"STRATA_POOL_THREADS": "2", "STRATA_VERIFY_ECAP": "30"}, {"verify.ecap": "20"}
    shared, own = arms("shared:", "own:verify.ecap=10", environ=environ, flags=flags)
    assert shared.settings == {"pool.threads": "2", "verify.ecap": "20"}
    assert own.settings == {"pool.threads": "2", "verify.ecap": "10"}


def test_a_piece_without_a_value_goes_on_with_the_list_before_it():
    _, found = arms("off:", "some:debug.parts=a,b,pool.pin=off")
    assert found.settings == {"debug.parts": "a,b", "pool.pin": "off"}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ((), "give --arm at least twice"),
        (("off:",), "give --arm at least twice"),
        (("off:", "fast"), "--arm 'fast': an arm is NAME:KNOB=VALUE"),
        (("off:", ":pool.threads=1"), "an arm is NAME:KNOB=VALUE"),
        (("off:", "two words:"), "a name has letters, digits"),
        (("off:", "off:pool.threads=1"), "--arm off: two arms have this name"),
        (("off:", "x:pool.threads"), "--arm x: 'pool.threads' is not KNOB=VALUE"),
        (("off:", "x:=1"), "--arm x: '=1' is not KNOB=VALUE"),
        (("off:", "x:pool.threads=2, =1"), "' =1' is not KNOB=VALUE"),
        (("off:", "x:,"), "'' is not KNOB=VALUE"),
        (("off:", "x:pool.threds=1"), "--arm x: there is no knob 'pool.threds'; did you mean 'pool.threads'?"),
        (("off:", "x:STRATA_VERIFY_ECAPS=1"), "did you mean 'STRATA_VERIFY_ECAP'?"),
        (("off:", "x:verify.ecap=1,STRATA_VERIFY_ECAP=2"), "verify.ecap is given twice"),
        (("off:", "x:verify.ecap="), "verify.ecap has no value"),
        (("off:", "x:pool.pin=maybe"), "pool.pin"),
        (("off:", "x:provider.path=/tmp"), "provider.path: all arms run on the same kernels package"),
        # A replaced value would measure another one than the arm says.
        (("off:", "x:verify.ecap=abc"), "--arm x: verify.ecap"),
        (("off:", "x:window.max_tokens=4"), "has no effect: 8 is built in"),
        (("off:", "x:window.width=4"), "is ignored: it is read only while window.draft"),
    ],
)
def test_what_is_wrong_with_an_arm_is_said(given, says):
    with pytest.raises(UserError) as problem:
        arms(*given)
    assert says in str(problem.value)
    assert "\n" not in str(problem.value)


def test_a_value_that_is_built_in_anyway_is_taken():
    _, found = arms("off:", "x:window.max_tokens=8,window.draft=ngram,window.width=4")
    assert found.settings == {"window.draft": "ngram", "window.width": "4"}


def scale_of(*given, top_k=8, knobs=ALL, flags=None):
    first, *_ = make_arms(given, knobs, {}, flags or {})
    return scale_arm(first, top_k, knobs, {}, flags or {})


def test_the_scale_is_the_first_arm_with_the_mildest_tail_skip():
    found = scale_of("off:pool.threads=2", "other:", flags={"expert.cache": "3"})
    assert found.name == "off, route.tail_skip=7"
    assert found.settings == {"pool.threads": "2", "route.tail_skip": "7", "expert.cache": "3"}
    assert found.texts == {"pool.threads": "2", "route.tail_skip": "7"}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"top_k": 1}, "route.tail_skip needs two experts per token, and this model picks 1"),
        ({"knobs": [each for each in ALL if each.name != "route.tail_skip"]}, "this kernels package has no"),
        ({"flags": {"route.tail_skip": "6"}}, "off has route.tail_skip=6 itself"),
        (
            {
                "knobs": [
                    replace(each, ignored_unless=DRAFTED) if each.name == "route.tail_skip" else each for each in ALL
                ]
            },
            "route.tail_skip=7 (command line --arm off, route.tail_skip=7) is ignored",
        ),
    ],
)
def test_why_there_is_no_scale(options, says):
    with pytest.raises(UserError) as problem:
        scale_of("off:", "other:pool.threads=2", **options)
    assert says in str(problem.value)
