"""`strata generate`: text from a model, streaming."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from strata_runtime.cli.draft_options import draft_options, with_drafts
from strata_runtime.cli.interrupt import Interrupt
from strata_runtime.cli.knob_command import KnobCommand, package_and_flags
from strata_runtime.cli.loading import load_engine
from strata_runtime.cli.main import EXIT_INTERRUPTED
from strata_runtime.cli.prompt import read_prompt
from strata_runtime.cli.sampling_options import sampling_options, take_sampling
from strata_runtime.cli.terminal import Terminal
from strata_runtime.knobs.grammar import show
from strata_runtime.params import DEFAULT_MAX_TOKENS, SamplingParams
from strata_runtime.whole_file import check_target

if TYPE_CHECKING:
    from strata_runtime.engine import Engine
    from strata_runtime.generation import Generation
    from strata_runtime.phases import WindowPhases
    from strata_runtime.request import Acceptance, GenerationResult, Prompt
    from strata_runtime.text.chat import Message

_Show = Literal["text", "ids", "nothing"]


def _write(text: str) -> None:
    if text:
        sys.stdout.write(text)
        sys.stdout.flush()


def _run(generation: Generation, interrupt: Interrupt, show: _Show) -> None:
    """Generate to the end, or until Ctrl-C; write the text, or token ids with commas between, as they come."""
    written = 0
    try:
        for chunk in generation:
            if show == "text":
                _write(chunk.text)
                written += len(chunk.text)
            elif show == "ids" and chunk.token_id is not None:
                _write(f",{chunk.token_id}" if written else str(chunk.token_id))
                written += 1
            if interrupt.requested:
                break
    except KeyboardInterrupt:
        interrupt.requested = True
    finally:
        generation.close()
    if show == "text":
        _write(generation.result.text[written:])


def _drafts(acceptance: Acceptance) -> str:
    if not acceptance.drafted:
        return "" if acceptance.drafter == "none" else f"; no {acceptance.drafter} drafts"
    kept = f"{acceptance.accepted} of {acceptance.drafted} {acceptance.drafter} drafts kept"
    return (
        f"; {kept} ({acceptance.accepted / acceptance.drafted:.0%}), {acceptance.tokens_per_window:.2f} tokens a pass"
    )


def _phases(phases: WindowPhases | None) -> str:
    if phases is None or not phases.windows:
        return ""
    seconds = phases.seconds()
    total = sum(seconds.values())
    parts = ", ".join(f"{phase} {time / total:.0%}" for phase, time in seconds.items())
    return f"; {phases.windows} windows of {1e3 * total / phases.windows:.2f} ms: {parts}"


def _write_logpos(engine: Engine, prompt: Prompt, terminal: Terminal) -> None:
    """Write the prompt's record where `eval.logpos` says."""
    settings = engine.settings
    if settings.eval.logpos is None:
        return
    from strata_runtime.evaluation.logpos import measure

    out = Path(settings.eval.logpos)
    check_target(out, "eval.logpos")
    width = settings.window.width or settings.window.max_tokens
    progress = terminal.progress("reading the prompt in windows, position")
    measure(engine, [engine.encode(prompt)], width, progress=progress, session=engine.session).save(out)


def _closing_line(result: GenerationResult, *, greedy: bool) -> str:
    usage, timing = result.usage, result.timing
    count = f"{usage.completion_tokens} token{'' if usage.completion_tokens == 1 else 's'}"
    speed = f" in {timing.decode_s:.2f} s: {timing.tokens_per_second:.1f} tokens/s" if timing.tokens_per_second else ""
    draws = "greedy" if greedy else f"seed {result.seed}"
    interrupted = "; interrupted" if result.finish_reason == "cancelled" else ""
    ends = f"{draws}{_drafts(result.acceptance)}{_phases(result.phases)}{interrupted}"
    return f"{count}{speed} (prompt {usage.prompt_tokens} tokens, {timing.prompt_s:.2f} s; {ends})"


def _as_json(result: GenerationResult, engine: Engine) -> str:
    resolution = engine.resolution
    settings = {knob.name: show(knob, resolution.values[knob.name]) for knob in resolution.differing()}
    return json.dumps({**dataclasses.asdict(result), "settings": settings, "session": engine.session.fingerprint})


def _messages(prompt: str | list[int], system: str | None, *, chat: bool) -> Prompt:
    if chat and not isinstance(prompt, str):
        raise click.UsageError("--chat needs text, not --prompt-ids.")
    if not chat:
        if system is not None:
            raise click.UsageError("--system needs --chat.")
        return prompt
    first: list[Message] = [] if system is None else [{"role": "system", "content": system}]
    return [*first, {"role": "user", "content": prompt}]


@click.command(cls=KnobCommand)
@click.option(
    "--model",
    required=True,
    metavar="PATH",
    help="Folder with config.json, tokenizer.json and weights, or a GGUF file.",
)
@click.option("--prompt", metavar="TEXT", help="What the model goes on from; - reads standard input.")
@click.option("--prompt-file", metavar="FILE", help="Read the prompt from a UTF-8 file; - is standard input.")
@click.option("--prompt-ids", metavar="N,N,...", help="Token ids to go on from, in place of text.")
@click.option("--chat", is_flag=True, help="Put the prompt into the model's chat template, as the user's message.")
@click.option("--system", metavar="TEXT", help="System message of the chat.")
@click.option(
    "--max-tokens", type=int, default=DEFAULT_MAX_TOKENS, show_default=True, metavar="N", help="Most tokens to draw."
)
@sampling_options(SamplingParams(), "Seed of the draws. Default: a new one, named at the end.")
@click.option("--stop", multiple=True, metavar="TEXT", help="End the text before TEXT; may be repeated.")
@click.option("--ignore-eos", is_flag=True, help="Go on after the model's own end tokens.")
@draft_options
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object at the end instead of streaming text.")
@click.option("--quiet", is_flag=True, help="Write nothing to stderr but errors.")
@click.pass_context
def command(
    ctx: click.Context,
    /,
    model: str,
    prompt: str | None,
    prompt_file: str | None,
    prompt_ids: str | None,
    chat: bool,
    system: str | None,
    max_tokens: int,
    stop: tuple[str, ...],
    ignore_eos: bool,
    as_json: bool,
    quiet: bool,
    **others: Any,
) -> None:
    """Write text with a model.

    The text goes to stdout as it comes, and nothing else does; what else there is to say goes to stderr. Special
    tokens that the prompt spells stay plain text. A model without a tokenizer takes --prompt-ids and writes token ids.
    """
    asked = _messages(read_prompt(prompt, prompt_file, prompt_ids), system, chat=chat)

    sampling = take_sampling(others)
    package, flags = package_and_flags(ctx, others)
    flags = with_drafts(flags, others, package.require().knobs)
    terminal = Terminal(quiet=quiet)
    with load_engine(model, package, flags, terminal, writes_logpos=True) as engine:
        _write_logpos(engine, asked, terminal)
        interrupt = Interrupt()
        generation = engine.generate(
            asked,
            sampling,
            max_tokens=max_tokens,
            stop=stop,
            ignore_eos=ignore_eos,
            progress=interrupt.between(terminal.progress("reading the prompt, token")),
        )
        with interrupt:
            _run(generation, interrupt, "nothing" if as_json else "ids" if engine.tokenizer is None else "text")
        result = generation.result
        if as_json:
            _write(_as_json(result, engine) + "\n")
        elif sys.stdout.isatty() and not result.text.endswith("\n"):
            _write("\n")
        terminal.say(_closing_line(result, greedy=sampling.temperature == 0))
    if result.finish_reason == "cancelled":
        ctx.exit(EXIT_INTERRUPTED)
