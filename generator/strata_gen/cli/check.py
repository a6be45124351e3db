"""`strata-gen check`: read every spec and report all that is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import click

from strata_gen.cli.options import chosen_format, spec_options
from strata_gen.model.specset import SpecSet
from strata_gen.specs import load_specs


def _counts(specs: SpecSet) -> str:
    counts = (
        (len(specs.knobs), "knob", "knobs"),
        (len(specs.targets), "target", "targets"),
        (len(specs.formats), "format", "formats"),
        (len(specs.kernels), "kernel", "kernels"),
        (len(specs.families), "family", "families"),
        (len(specs.protocols), "protocol", "protocols"),
    )
    return ", ".join(f"{count} {one if count == 1 else many}" for count, one, many in counts)


@click.command("check")
@spec_options
def command(specs: tuple[Path, ...]) -> None:
    """Read every spec and report all that is wrong.

    Prints one line when nothing is (an empty array with --format json), and exits with 2 otherwise.
    """
    loaded = load_specs(specs)
    click.echo(json.dumps([]) if chosen_format() == "json" else f"specs are right: {_counts(loaded)}")
