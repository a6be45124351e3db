"""`strata-gen new`: write a new spec entry."""

from __future__ import annotations

from pathlib import Path

import click

from strata_gen.cli.options import spec_options
from strata_gen.errors import GeneratorError
from strata_gen.model.knob import Affects, KnobType, Output
from strata_gen.new_knob import NewKnob, add_knob
from strata_gen.paths import require_checkout, specs_root
from strata_gen.specs import holds_specs, load_specs


@click.group("new")
def command() -> None:
    """Write a new spec entry."""


@command.command("knob")
@click.argument("name")
@click.option("--type", "kind", type=click.Choice([kind.value for kind in KnobType]), required=True, help="Its type.")
@click.option("--default", metavar="V", help="Its default, as in the spec. Leave it out for a knob that is unset.")
@click.option("--choices", metavar="A,B", help="Values of an enum.")
@click.option(
    "--affects",
    type=click.Choice([affects.value for affects in Affects]),
    default=Affects.RUNTIME.value,
    show_default=True,
    help="When a value takes effect.",
)
@click.option(
    "--output",
    type=click.Choice([output.value for output in Output]),
    default=Output.IDENTICAL.value,
    show_default=True,
    help="What a value may do to the output.",
)
@click.option("--help-text", metavar="SENTENCE", help="One sentence that ends in a full stop.")
@spec_options
def knob_command(
    specs: tuple[Path, ...],
    name: str,
    kind: str,
    default: str | None,
    choices: str | None,
    affects: str,
    output: str,
    help_text: str | None,
) -> None:
    """Append the knob NAME (section.attribute) to knobs/SECTION.yaml.

    The last folder of --specs gets it, which is made when it is not there; without --specs, the checkout. The file is
    written only when all specs are right with it.

    \b
    strata-gen new knob verify.most --type int --default 0 --help-text "Most experts of one window."
    strata-gen new knob mine.most --type int --default 0 --specs my-specs
    """
    if specs == (specs_root(),):
        require_checkout("name the folder of specs that gets it: --specs DIR")
    if (choices is not None) != (kind == KnobType.ENUM):
        raise GeneratorError("--choices belongs to --type enum, and an enum needs it", mend="--type enum --choices a,b")
    new = NewKnob(
        name=name,
        type=KnobType(kind),
        default=default,
        choices=tuple(choice.strip() for choice in (choices or "").split(",") if choice.strip()),
        affects=Affects(affects),
        output=Output(output),
        help=help_text or f"Sets {name}.",
    )
    there = specs if holds_specs(specs[-1]) else specs[:-1]
    path, knob = add_knob(new, specs, load_specs(there or specs))
    click.echo(f"wrote {path}:{knob.span.line}: {knob.env}, {knob.flag}, settings.{knob.name}")
