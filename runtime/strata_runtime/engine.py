"""The engine: a loaded model with its tokenizer, and generation with them.

>>> from strata_runtime import Engine, SamplingParams
>>> with Engine.load(MODEL, engine_context=256) as engine:
...     generation = engine.generate("def add(a, b):", SamplingParams(temperature=0), max_tokens=4)
...     text = "".join(chunk.text for chunk in generation)
...     question = [{"role": "user", "content": "Add two numbers."}]
...     answer = engine.generate(question, SamplingParams(seed=1), max_tokens=4).run()
>>> text == generation.result.text
True
>>> answer.seed, answer.usage.completion_tokens <= 4
(1, True)

Any knob can be given to `load` by its field name; that is stronger than every other source.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from strata_runtime.decoding import Decoding
from strata_runtime.drafts.choice import make_drafter, make_width
from strata_runtime.drafts.width import Width
from strata_runtime.errors import UserError
from strata_runtime.generation import Generation
from strata_runtime.hybrid.placement import ExpertProfile
from strata_runtime.knobs import Flags, Resolution
from strata_runtime.layers.kv_cache import context_length
from strata_runtime.layers.threads import cores_for_the_pool
from strata_runtime.loading import Report, model_path, say_notes, settle
from strata_runtime.model import Model, ModelInfo
from strata_runtime.params import DEFAULT_MAX_TOKENS, SamplingParams
from strata_runtime.phases import WindowPhases
from strata_runtime.progress import Progress
from strata_runtime.provider import Provider, find_provider
from strata_runtime.reading import Reader
from strata_runtime.request import Prompt, Request
from strata_runtime.sampling import Row, log_softmax
from strata_runtime.session import Session, session_of
from strata_runtime.text.chat import ChatTemplate, Tool
from strata_runtime.text.source import TextSource, open_text
from strata_runtime.text.stream import TextStream
from strata_runtime.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from strata_runtime._settings import Settings


class Engine:
    """A loaded model that generates text. Not for several threads at once; one generation runs at a time.

    `path`: its folder or file. `tokenizer`: None for a model that works with token ids alone. `session`: what the
    numbers of its passes depend on. `width`: what chooses how many tokens a window takes.
    """

    def __init__(
        self,
        model: Model,
        text: TextSource,
        resolution: Resolution,
        settings: Settings,
        session: Session,
        width: Width,
        started: float,
    ) -> None:
        """Put loaded parts together. `settings` is what `resolution` settled, `started` a time of `perf_counter`."""
        self.info: ModelInfo = model.info
        self.path: Path = model.info.path
        self.tokenizer: Tokenizer | None = text.tokenizer
        self.resolution = resolution
        self.settings = settings
        self.session = session
        self.context = context_length(settings.engine.context, model.info.context_length)
        self._text = text
        self._ends = text.ends(model.info.vocab_size)
        self._mtp = model.mtp
        # One for all generations: what a width costs is the machine's, and the next text is most like the last one.
        self.width = width
        self._reader = Reader(model, self.context, settings.engine.prompt_chunk)
        self._load_s = perf_counter() - started

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        environ: Mapping[str, str] | None = None,
        flags: Flags | None = None,
        provider: Provider | None = None,
        progress: Progress | None = None,
        report: Report | None = None,
        writes_logpos: bool = False,
        device: torch.device | None = None,
        **settings: object,
    ) -> Engine:
        """Load a model.

        path: a folder with config.json, tokenizer.json and the weights, or a GGUF file, of a split one any part.
        environ: the variables that are read, `os.environ` unless given. flags: texts by dotted knob name, as a command
        line gives them. settings: values by knob field (`pool_threads=2`), stronger than all others.
        provider: the kernels package to use instead of searching for one.
        progress: called with (done, total) while weights are read. report: takes the start-up lines; without it they
        go to the logger `strata_runtime`. writes_logpos: the caller writes the file of `eval.logpos`, which the engine
        does not do; otherwise a line says so. device: see `Model.load`.

        Raises `UserError` for everything that can be wrong with the model, the settings or the kernels package.
        """
        started = perf_counter()
        environ = os.environ if environ is None else environ
        where = model_path(path)
        provider = provider or find_provider(environ)
        resolution, values = settle(provider, environ, flags or {}, settings, report, writes_logpos=writes_logpos)
        width = make_width(values)
        text = open_text(where)
        with cores_for_the_pool():
            model = Model.load(where, provider, values, progress, device)
            try:
                if text.tokenizer is not None:
                    text.tokenizer.check_fits(model.info.vocab_size)
                say_notes(model.info.notes, report)
                session = session_of(model.info.identity, model.info.arranged_bytes, provider, resolution)
                return cls(model, text, resolution, values, session, width, started)
            except BaseException:
                model.close()
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    @property
    def kv_bytes_per_token(self) -> int:
        """Memory that one token of the context takes."""
        further = 0 if self._mtp is None else self._mtp.cache_bytes_per_token
        return self._reader.cache_bytes // self.context + further

    @property
    def phases(self) -> WindowPhases | None:
        """Where the time of windows went since the engine was loaded; None unless `verify.profile` is on."""
        return self._reader.phases

    def close(self) -> None:
        """Stop the workers and free the model; what is generated after that raises `UserError`. Idempotent."""
        self._reader.close()

    @cached_property
    def chat_template(self) -> ChatTemplate:
        """The model's chat template. Raises `UserError` when it has none."""
        return self._text.chat_template()

    def encode(self, prompt: Prompt, *, tools: Sequence[Tool] = ()) -> tuple[int, ...]:
        """Turn a prompt into token ids. Text is literal: what spells a control token in it does not become one.

        tools: what the model may call, for the chat template; with messages alone. An empty prompt becomes the model's
        first token (BOS). Raises `UserError` when it has none, for ids outside the vocabulary, for text when the model
        works with token ids alone, and for messages that the chat template refuses. For any thread.
        """
        if isinstance(prompt, str):
            ids = self._text.require_tokenizer().encode(prompt)
        elif isinstance(prompt, bytes | Mapping) or not hasattr(prompt, "__getitem__"):
            raise UserError(f"a prompt is text, token ids, or a list of messages, not {type(prompt).__name__}")
        elif len(prompt) and isinstance(prompt[0], Mapping):
            tokenizer = self._text.require_tokenizer()
            ids = self.chat_template.render(prompt, tokenizer, tools=tools)  # type: ignore[arg-type]
        else:
            ids = self._checked(prompt)
        if not ids and self._ends.begin is not None:
            ids = [self._ends.begin]
        if not ids:
            raise UserError("the prompt is empty, and this model has no token that begins a text: give it some text")
        return tuple(ids)

    def generate(
        self,
        prompt: Prompt,
        sampling: SamplingParams | None = None,
        *,
        max_tokens: int = DEFAULT_MAX_TOKENS,
        stop: str | Sequence[str] = (),
        ignore_eos: bool = False,
        progress: Progress | None = None,
    ) -> Generation:
        """Check a request and return its generation, which reads the prompt with its first step.

        prompt: text, token ids, or messages (`{"role": ..., "content": ...}`) for the chat template.
        max_tokens: most tokens to draw; prompt and generated tokens share the context. stop: strings that end the
        text and are not part of it; one that spells a control token ends the text at that token. ignore_eos: draw on
        after the model's own end tokens. progress: called with (done, total) prompt tokens.

        Raises `UserError` for any value out of its range and for a prompt longer than the context, before any work.
        """
        request = self.request(self.encode(prompt), sampling, max_tokens=max_tokens, stop=stop, ignore_eos=ignore_eos)
        decoding = self.decoding(request)
        return Generation(decoding, self._reader, self.width, load_s=self._load_s, progress=progress)

    def request(
        self,
        ids: Sequence[int],
        sampling: SamplingParams | None = None,
        *,
        max_tokens: int = DEFAULT_MAX_TOKENS,
        stop: str | Sequence[str] = (),
        ignore_eos: bool = False,
    ) -> Request:
        """Check a request for token ids as `encode` returns them: see `generate`. For any thread."""
        self._check_fits(ids)
        stops = (stop,) if isinstance(stop, str) else tuple(stop)
        if stops and self.tokenizer is None:
            raise UserError("stop strings need text, and this model works with token ids alone")
        control = {} if self.tokenizer is None else self.tokenizer.control_tokens
        spelled = frozenset(control[text] for text in stops if isinstance(text, str) and text in control)
        end_ids = spelled if ignore_eos else spelled | self._ends.end
        return Request(tuple(ids), sampling or SamplingParams(), max_tokens, stops, end_ids)

    def decoding(self, request: Request) -> Decoding:
        """Return the text of a request before its first token, and before its prompt was read."""
        most = min(self.context, len(request.ids) + request.max_tokens)
        return Decoding(
            request,
            TextStream(self.tokenizer, request.stops),
            make_drafter(self.settings, self._mtp, most),
            vocab_size=self.info.vocab_size,
            context=self.context,
        )

    @property
    def reader(self) -> Reader:
        """What reads the engine's own texts; lends the model to a batch."""
        return self._reader

    def logprobs(self, ids: Sequence[int]) -> NDArray[np.float32]:
        """Return each token's log-probability given those before it, float32 [len(ids)]; NaN for the first.

        Raises `UserError` for ids outside the vocabulary and more than the context holds.
        """
        result = np.full(len(ids), np.nan, dtype=np.float32)
        at = 1
        for rows in self.logprob_rows(ids):
            targets = np.asarray(ids[at : at + len(rows)], dtype=np.int64)
            result[at : at + len(targets)] = rows[np.arange(len(targets)), targets]
            at += len(rows)
        return result

    def logprob_rows(self, ids: Sequence[int], window: int | None = None) -> Iterator[Row]:
        """Yield log-probabilities of the next token after each of `ids`, float32 [n, vocab], pass by pass.

        `window`: tokens of a pass, cut at its multiples; those of a prompt's passes unless given.
        """
        for rows in self._reader.rows(object(), self.check_ids(ids), window):
            yield log_softmax(rows)

    def check_ids(self, ids: Sequence[int]) -> list[int]:
        """Return token ids as they are. Raises `UserError` for ids outside the vocabulary and more than the context."""
        checked = self._checked(ids)
        self._check_fits(checked)
        return checked

    def expert_profile(self, texts: Sequence[Sequence[int]], progress: Progress | None = None) -> ExpertProfile:
        """Read texts, token ids each, and count how often each expert was chosen.

        progress: called with (done, total) tokens. Raises `UserError` for ids outside the vocabulary, for a text longer
        than the context, and for a model without routed experts.
        """
        checked = [self._checked(ids) for ids in texts]
        for ids in checked:
            self._check_fits(ids)
        profile = self._reader.profile(object(), checked, progress)
        if not profile.counts.size:
            raise UserError(f"{self.path}: has no layers with routed experts")
        return profile

    def _checked(self, ids: Sequence[Any]) -> list[int]:
        size = self.info.vocab_size
        for at, token in enumerate(ids):
            if isinstance(token, bool) or not isinstance(token, int | np.integer) or not 0 <= token < size:
                raise UserError(f"token {at} of the prompt must be an id from 0 to {size - 1}, not {token!r:.40}")
        return list(map(int, ids))

    def _check_fits(self, ids: Sequence[int]) -> None:
        if len(ids) > self.context:
            own = self.info.context_length
            hint = f"; engine.context can raise it to {own}" if own > self.context else ""
            raise UserError(
                f"the prompt has {len(ids)} tokens, more than the context of {self.context}: shorten it{hint}"
            )
