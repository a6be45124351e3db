"""Codes of knobs and their relations."""

from __future__ import annotations

from strata_gen.codes.explanation import Explanation

CODES: tuple[Explanation, ...] = (
    Explanation(
        "K020",
        "not a knob's name",
        "A knob is named section.attribute: two parts, each of lowercase words and digits that start with a "
        "letter and are joined by single underscores. The environment variable, the flag, the Python attribute "
        "and the C++ field are derived from it, so a keyword of Python or C++ cannot be a part.",
        "name: Verify.E-Cap",
        "name: verify.ecap",
    ),
    Explanation(
        "K021",
        "help is not one sentence",
        "'help' is what --help and the tables show: one sentence on one line, ending in a full stop. Everything "
        "beyond it belongs in 'details'.",
        "help: Slots per layer. More is faster",
        "help: Slots per layer.\ndetails: More is faster, and takes memory.",
    ),
    Explanation(
        "K022",
        "the default has another type",
        "The default must be a value of the knob's type. Bytes are written 512MiB, 2GB or 4096, durations 250ms, "
        "2s or 50us (a unit is obligatory, except for 0), lists as YAML lists. Leave 'default' out when the knob "
        "is unset by default.",
        "type: duration\ndefault: 250",
        "type: duration\ndefault: 250ms",
    ),
    Explanation(
        "K023",
        "the default does not fit",
        "The default lies outside the knob's range or is not among its choices: a user could not set the value "
        "that the knob has without being set.",
        "range: {min: 1}\ndefault: 0",
        "range: {min: 0}\ndefault: 0",
    ),
    Explanation(
        "K024",
        "not a range",
        "Only numbers (int, float, bytes, duration) have a range. 'min' and 'max' include the bound, 'above' and "
        "'below' exclude it; one of each pair is enough, 'multiple_of' is above 0, and some value must be left.",
        "type: int\nrange: {min: 8, max: 1}",
        "type: int\nrange: {min: 1, max: 8}",
    ),
    Explanation(
        "K025",
        "cannot be compiled in",
        "A knob that affects compile becomes a constant of the generated code and part of the build key. It must "
        "be a bool, an int or an enum, and it must have a default.",
        "affects: compile\ntype: str",
        "affects: compile\ntype: enum\nchoices: [small, large]\ndefault: small",
    ),
    Explanation(
        "K026",
        "not a list of choices",
        "An enum lists its values under 'choices', and 'choices_from' adds names of specs; no other type has them. A "
        "choice is a word of letters, digits and _ . + -, and two choices must differ in more than case and "
        "punctuation, since each becomes an enumerator in C++.",
        "type: enum\nchoices: [fast, Fast]",
        "type: enum\nchoices: [fast, faster]",
    ),
    Explanation(
        "K027",
        "a knob is declared twice",
        "Two entries have the same name, in one file or in several (with several --specs folders, in any of them).",
        "- name: verify.ecap\n  ...\n- name: verify.ecap\n  ...",
        "- name: verify.ecap\n  ...\n- name: verify.ecap_low\n  ...",
    ),
    Explanation(
        "K028",
        "two knobs derive the same name",
        "Dots and underscores become the same character in an environment variable, a flag and a field, so two "
        "different knobs would share one of them.",
        "- name: pool.spin_time\n- name: pool_spin.time",
        "- name: pool.spin_time\n- name: pool.sleep_time",
    ),
    Explanation(
        "K029",
        "not words for values",
        "A number (int, float, bytes, duration) may have words that stand for values, inside or outside of its range: "
        "the user writes the word, and the program sees the value. A word is of lowercase letters, joined by single "
        "underscores, and no two stand for one value.",
        "type: int\nwords: {Auto: -1}\ndefault: -1",
        "type: int\nwords: {auto: -1}\ndefault: auto",
    ),
    Explanation(
        "K030",
        "not in the relation language",
        "A relation is made of knob names (section.attribute), literals (text in double quotes, numbers, "
        "quantities such as 512MiB or 250ms, true, false, unset), comparisons (== != < <= > >=), in [..], and, "
        "or, not and parentheses. Nothing else exists: no arithmetic, no calls.",
        "ignored_unless: pool.mode = 'wide' && pool.threads",
        'ignored_unless: pool.mode == "wide" and pool.threads > 0',
    ),
    Explanation(
        "K031",
        "unknown knob",
        "A relation names a knob that no spec declares. Names are checked at load, so that a renamed knob cannot "
        "leave a relation behind that never strikes.",
        "ignored_unless: verify.dfer_cpu",
        "ignored_unless: verify.defer_cpu",
    ),
    Explanation(
        "K032",
        "cannot be compared",
        "Both sides of a comparison must be of comparable types, at least one side must be a knob, and < <= > >= "
        "need numbers, bytes or durations. Text, enums and booleans know == and != only; a list can be compared "
        "with unset.",
        'ignored_unless: pool.threads > "4"',
        "ignored_unless: pool.threads > 4",
    ),
    Explanation(
        "K033",
        "not a choice of the enum",
        "The text that an enum is compared with is not among its choices, so the comparison could never hold.",
        'ignored_unless: pool.pin == "always"',
        'ignored_unless: pool.pin == "on"',
    ),
    Explanation(
        "K034",
        "no condition",
        "A knob that stands by itself in a relation must be a bool; a literal by itself says nothing.",
        "ignored_unless: pool.threads",
        "ignored_unless: pool.threads > 0",
    ),
    Explanation(
        "K035",
        "relations form a cycle",
        "What a knob's value is may depend on others ('requires', 'off_with', 'ignored_unless'; 'implies' the "
        "other way round), but never, over any number of steps, on itself: there would be no order to settle them "
        "in.",
        "- name: pool.spin\n  ignored_unless: pool.pin\n- name: pool.pin\n  ignored_unless: pool.spin",
        "- name: pool.spin\n  ignored_unless: pool.pin\n- name: pool.pin",
    ),
    Explanation(
        "K036",
        "an implied value does not fit",
        "'implies' gives another knob a weak default; the value must be one that this knob can have, by type, "
        "range and choices.",
        'implies: [{when: verify.fast, knob: pool.threads, value: "many"}]',
        "implies: [{when: verify.fast, knob: pool.threads, value: 8}]",
    ),
    Explanation(
        "K037",
        "a build-time value depends on run time",
        "A knob that affects compile is settled when the package is built. Its relations can name only knobs that "
        "affect compile too; the value of any other is known later.",
        "- name: build.unroll\n  affects: compile\n  ignored_unless: pool.threads > 1  # affects launch",
        "- name: build.unroll\n  affects: compile",
    ),
)
