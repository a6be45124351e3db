"""`strata serve`: an OpenAI-compatible server and a page on a model."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from strata_runtime.cli.draft_options import draft_options, with_drafts
from strata_runtime.cli.knob_command import KnobCommand, package_and_flags
from strata_runtime.cli.loading import load_engine
from strata_runtime.cli.short_flags import with_short_flags
from strata_runtime.cli.terminal import Terminal
from strata_runtime.discovery import extra_command
from strata_runtime.errors import UserError

if TYPE_CHECKING:
    import socket

    from strata_runtime.engine import Engine
    from strata_runtime.serve.options import ServeOptions

_MIB = 1 << 20
_OWN_NAMES = ("localhost", "127.0.0.1", "::1")
_SHORT = {"batch": "batch.slots"}
_READY = "{model}: page at {url}, API at {url}/v1; slots: {slots}, context: {context} tokens"


def _keys(given: tuple[str, ...], file: str | None) -> frozenset[str]:
    if file is None:
        return frozenset(given)
    try:
        lines = Path(file).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as problem:
        raise UserError(f"--api-key-file {file}: cannot be read: {problem}") from None
    found = [line.strip() for line in lines if line.strip()]
    if not found:
        raise UserError(f"--api-key-file {file}: holds no key; give one a line")
    return frozenset((*given, *found))


def _require_packages() -> None:
    try:
        import fastapi
        import prometheus_client
        import uvicorn
    except ImportError as problem:
        raise UserError(
            f"the server needs the package {problem.name}, which is not installed: {extra_command('serve')}"
        ) from None
    del fastapi, prometheus_client, uvicorn


def _facts(engine: Engine, options: ServeOptions, where: str) -> dict[str, Any]:
    return {
        "url": where,
        "model": options.model,
        "path": str(engine.path),
        "context": engine.context,
        "slots": engine.settings.batch.slots,
        "queue": engine.settings.batch.queue,
        "keys": len(options.keys),
        "session": engine.session.fingerprint,
    }


def _serve(engine: Engine, options: ServeOptions, opened: socket.socket, terminal: Terminal, *, as_json: bool) -> None:
    from strata_runtime.batch.batch import Batch
    from strata_runtime.serve.journal import Journal
    from strata_runtime.serve.server import listen, run, url
    from strata_runtime.serve.service import Service

    if engine.tokenizer is None:
        raise UserError(
            f"{engine.path}: has no tokenizer, and the API is one of text; use strata generate --prompt-ids"
        )
    if not options.keys and not _is_loopback(opened):
        terminal.say("whoever reaches this address can use the model: --api-key closes it")
    batch = Batch(engine)
    try:
        service = Service(engine, batch, options, Journal(as_json=as_json), engine.tokenizer)
        facts = _facts(engine, options, url(opened))
        line = json.dumps(facts) if as_json else _READY.format(**facts)
        listen(opened)
        run(service, opened, lambda: click.echo(line))
    finally:
        batch.close()


def _is_loopback(opened: socket.socket) -> bool:
    """Whether a listening socket is reached from this machine alone."""
    host = opened.getsockname()[0]
    return bool(host.startswith("127.") or host == "::1")


@click.command(cls=KnobCommand)
@click.option("--model", required=True, metavar="PATH", help="Folder or GGUF file of the model.")
@click.option("--batch", metavar="N", help="Requests that are answered at the same time. [--batch-slots]")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on; 0.0.0.0 is all.")
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="Port; 0 is any free one.")
@click.option("--model-name", metavar="NAME", help="What requests call the model. Default: its file's name.")
@click.option("--api-key", multiple=True, metavar="KEY", help="A key that opens the API; may be repeated.")
@click.option(
    "--api-key-file",
    metavar="FILE",
    help="File of such keys, one a line; unlike --api-key no list of processes shows it.",
)
@click.option("--cors-origin", multiple=True, metavar="ORIGIN", help="Website whose scripts may use the API; * is all.")
@click.option(
    "--allowed-host",
    multiple=True,
    metavar="NAME",
    help="Name that the server may be called by (behind a proxy). Default: on 127.0.0.1 its own names, else any.",
)
@click.option("--max-body", type=float, default=8, show_default=True, metavar="MIB", help="Largest body of a request.")
@click.option(
    "--read-timeout",
    type=float,
    default=30,
    show_default=True,
    metavar="S",
    help="Time for a request's head, and for its body; 0 is any.",
)
@click.option(
    "--timeout", type=float, default=3600, show_default=True, metavar="S", help="Time for an answer in all; 0 is any."
)
@click.option(
    "--drain",
    type=float,
    default=30,
    show_default=True,
    metavar="S",
    help="Time that running answers get when the server is stopped.",
)
@draft_options
@click.option("--json", "as_json", is_flag=True, help="Write the facts of the start to stdout, and the log, as JSON.")
@click.option("--quiet", is_flag=True, help="Say nothing while the model is loaded.")
@click.pass_context
def command(
    ctx: click.Context,
    /,
    model: str,
    host: str,
    port: int,
    model_name: str | None,
    api_key: tuple[str, ...],
    api_key_file: str | None,
    cors_origin: tuple[str, ...],
    allowed_host: tuple[str, ...],
    max_body: float,
    read_timeout: float,
    timeout: float,
    drain: float,
    as_json: bool,
    quiet: bool,
    **others: Any,
) -> None:
    """Serve a model over HTTP: OpenAI's API below /v1, a page with chat and monitor at /.

    /health says whether requests are taken, /status and /metrics how it goes, /openapi.json describes the API. One line
    on stdout says that the server is ready and where; the log, a line a request, goes to stderr. SIGINT or SIGTERM
    (Ctrl-C, kill) stop it: running answers get --drain seconds; a second one ends it at once.
    """
    _require_packages()
    from strata_runtime.serve.hosts import same_name
    from strata_runtime.serve.options import ServeOptions
    from strata_runtime.serve.server import reserve

    options = ServeOptions(
        model_name or Path(model).resolve().name.removesuffix(".gguf"),
        keys=_keys(api_key, api_key_file),
        origins=cors_origin,
        hosts=frozenset(same_name(name) or name for name in allowed_host),
        body_bytes=_bytes(max_body),
        read_s=read_timeout,
        answer_s=timeout,
        drain_s=drain,
    )
    package, flags = package_and_flags(ctx, others)
    knobs = package.require().knobs
    flags = with_short_flags(with_drafts(flags, others, knobs), others, knobs, _SHORT)
    terminal = Terminal(quiet=quiet)
    # Before the model: a port that is taken is known at once, not after minutes.
    with reserve(host, port) as opened:
        if _is_loopback(opened):
            options = replace(options, hosts=options.hosts | {same_name(host) or "localhost", *_OWN_NAMES})
        with load_engine(model, package, flags, terminal) as engine:
            _serve(engine, options, opened, terminal, as_json=as_json)


def _bytes(mib: float) -> int:
    if not 0 < mib < float("inf"):
        raise UserError(f"--max-body: give MiB above 0, not {mib:g}")
    return max(1, int(mib * _MIB))
