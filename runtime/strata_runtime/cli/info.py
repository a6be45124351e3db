"""`strata info`: what is installed, how it is set, and what a model needs."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from strata_runtime import __version__
from strata_runtime.cli.knob_command import KnobCommand, Package, package_and_flags
from strata_runtime.knobs import Flags, Resolution, resolve
from strata_runtime.knobs.grammar import show
from strata_runtime.provider import Provider, make_pool, survey
from strata_runtime.sizes import size

if TYPE_CHECKING:
    from strata_runtime.engine import Engine


def _knobs(resolution: Resolution) -> list[dict[str, object]]:
    return [
        {"name": knob.name, "value": show(knob, resolution.values[knob.name]), "source": str(origin)}
        for knob in resolution.differing()
        for origin in [resolution.sources[knob.name]]
    ]


def _running(provider: Provider, resolution: Resolution) -> dict[str, object]:
    """Ask the package itself: the level that it chose for this CPU, and the workers that it starts."""
    pool = make_pool(provider, provider.settings_type.from_values(resolution.values))
    try:
        return {"cpu_level": provider.native.ISA, "threads": pool.threads}
    finally:
        pool.close()


def _model(engine: Engine) -> dict[str, object]:
    info = engine.info
    return {
        "path": str(engine.path),
        "identity": info.identity,
        "family": info.family,
        "title": info.title,
        "layers": info.layers,
        "further_layers": info.further_layers,
        "hidden_size": info.hidden_size,
        "experts": info.experts,
        "experts_per_token": info.experts_per_token,
        "vocab_size": info.vocab_size,
        "parameters": info.parameters,
        "checkpoint_bytes": info.checkpoint_bytes,
        "expert_format": info.expert_format,
        "expert_bytes": info.expert_bytes,
        "weight_layout": "compute" if info.arranged_bytes else "stored",
        "arranged_bytes": info.arranged_bytes,
        "context": engine.context,
        "context_of_model": info.context_length,
        "has_text": engine.tokenizer is not None,
        "notes": list(info.notes),
        "kv_bytes_per_token": engine.kv_bytes_per_token,
    }


def _gather(package: Package, flags: Flags, model: str | None) -> dict[str, Any]:
    considered = [each.facts() for each in survey(package.environ)]
    report: dict[str, Any] = {"version": __version__, "packages": considered}
    if package.provider is not None:
        report["chosen"] = {"package": package.provider.name, "why": package.provider.why}
        resolution = resolve(package.provider.knobs, environ=package.environ, command_line=flags)
        report |= _running(package.provider, resolution)
        report |= {"knobs": _knobs(resolution), "notes": list(resolution.lines)}
    if model is not None:
        from strata_runtime.engine import Engine

        provider = package.require()
        with Engine.load(
            model, environ=package.environ, flags=flags, provider=provider, report=lambda _: None
        ) as engine:
            report["model"] = _model(engine)
            report["session"] = {
                "fingerprint": engine.session.fingerprint,
                **asdict(engine.session),
                "knobs": dict(engine.session.knobs),
            }
    return report


def _lines(report: Mapping[str, Any], problem: str) -> Iterator[str]:
    yield f"strata {report['version']}, {os.cpu_count()} logical CPUs"
    for package in report["packages"]:
        what = f"{package['backend']} {package['arch']}" if package["usable"] else f"refused: {package['reason']}"
        yield f"package {package['folder']}: {what}"
        yield from filter(None, [package["clash"]])
    if problem:
        yield f"no usable package: {problem}"
        return
    yield f"using {report['chosen']['package']}: {report['chosen']['why']}"
    yield f"CPU level {report['cpu_level']}, {report['threads']} pool threads"
    for knob in report["knobs"]:
        yield f"knob {knob['name']}={knob['value']} ({knob['source']})"
    yield from report["notes"]
    if model := report.get("model"):
        yield f"model {model['path']}: {model['title']} ({model['family']})"
        further = f" and {model['further_layers']} for drafts" if model["further_layers"] else ""
        yield f"  {model['layers']} layers{further}, {model['experts']} experts, {model['experts_per_token']} per token"
        yield f"  {model['parameters'] / 1e6:,.1f} M parameters in {size(model['checkpoint_bytes'])}"
        yield f"  experts: {size(model['expert_bytes'])} of {model['expert_format']}"
        arranged = model["arranged_bytes"]
        layout = f"{size(arranged)} arranged for the CPU level, the rest" if arranged else "all"
        yield f"  weights in memory: {layout} as stored in the file"
        cache = model["kv_bytes_per_token"]
        yield f"  context {model['context']} of at most {model['context_of_model']} tokens"
        yield f"  KV cache: {size(cache)} per token, {size(cache * model['context'])} in all"
        yield f"  session {report['session']['fingerprint']}"
        if not model["has_text"]:
            yield "  no tokenizer: works with token ids alone"
        yield from (f"  {note}" for note in model["notes"])


@click.command(cls=KnobCommand)
@click.option("--model", metavar="PATH", help="Load this model too, and show its sizes.")
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object.")
@click.pass_context
def command(ctx: click.Context, /, model: str | None, as_json: bool, **others: object) -> None:
    """Show the version, the kernels packages that were found, knobs not at their default, and a model's sizes."""
    package, flags = package_and_flags(ctx, others)
    report = _gather(package, flags, model)
    click.echo(json.dumps(report) if as_json else "\n".join(_lines(report, package.problem)))
