"""Doubles of a kernels package and a network: any logits, without a compiler or weights."""

import os
import threading
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch

from strata_runtime.engine import Engine
from strata_runtime.errors import NotFiniteError
from strata_runtime.knobs import KnobInfo, Range, Source
from strata_runtime.layers.outcome import Outcome
from strata_runtime.model import ModelInfo


def knob(name, type_, default, **more):
    derived = name.replace(".", "_")
    return KnobInfo(
        name=name,
        env="STRATA_" + derived.upper(),
        flag="--" + derived.replace("_", "-"),
        field=derived,
        type=type_,
        declared=default,
        default=default,
        default_source=Source.DEFAULT,
        affects="launch",
        **{"output": "identical", **more},
    )


KNOBS = (
    knob("engine.context", "int", 0, range=Range(minimum=0), help="Tokens that the cache holds."),
    knob("engine.prompt_chunk", "int", 4, range=Range(minimum=1), help="Prompt tokens in one pass."),
    knob("window.draft", "enum", "none", choices=("none", "ngram", "mtp"), help="Who drafts."),
    knob("window.ngram_least", "int", 2, range=Range(minimum=1), help="Fewest tokens that occurred."),
    knob("window.width", "int", 0, range=Range(minimum=0, maximum=8), words=(("auto", 0),), help="Tokens of a window."),
    knob("window.max_tokens", "int", 8, help="Widest window."),
    knob("batch.slots", "int", 1, range=Range(minimum=1), help="Requests at a time."),
    knob("batch.queue", "int", 64, range=Range(minimum=0), help="Requests that wait."),
    knob("batch.prefix", "enum", "exact", choices=("off", "exact", "on"), help="What is not read again."),
    knob("batch.prefix_mib", "int", 0, range=Range(minimum=0), help="Memory for prefixes."),
    knob("piped.concurrent", "bool", False, help="Reading beside windows."),
    knob("piped.piece", "int", 0, range=Range(minimum=0), help="Tokens between windows."),
    knob("piped.give_way", "int", 4, range=Range(minimum=1), help="By how many tokens others are shorter."),
    knob("piped.stream_share", "float", 0.25, range=Range(minimum=0.05, maximum=1), help="Share of streams."),
    knob("verify.timeout", "duration", 10_000_000_000, help="Patience."),
    knob("eval.logpos", "path", None, help="File of a record."),
    knob("verify.defer_cpu", "enum", "0", choices=("0", "1", "check"), help="Late rows."),
    knob("verify.device_plan", "bool", False, help="Who plans."),
    knob("verify.ecap", "int", None, range=Range(minimum=1), invalid="default", help="Most entries."),
    knob(
        "route.tail_skip",
        "int",
        0,
        output="approximates",
        range=Range(minimum=0),
        help="Rank from which experts are left out.",
    ),
    knob("expert.cache", "int", 0, range=Range(minimum=0), help="Slots."),
    knob("expert.adapt", "bool", False, help="Whether experts move."),
    knob("expert.pcie_frac", "float", 0.0, help="Share that is read."),
    knob("pool.pin", "enum", "auto", choices=("auto", "on", "off"), help="Whether workers are pinned."),
    knob("pool.threads", "int", 0, range=Range(minimum=0, maximum=64), invalid="default", help="Worker threads."),
)


class Settings:
    @staticmethod
    def from_values(values):
        sections = {}
        for name, value in values.items():
            section, _, attribute = name.partition(".")
            sections.setdefault(section, {})[attribute] = value
        return SimpleNamespace(**{name: SimpleNamespace(**fields) for name, fields in sections.items()})


@dataclass
class FakeProvider:
    name: str = "strata_kernels_fake"
    backend: str = "cpu"
    arch: str = "fake"
    folder: Path = Path("/nowhere")
    why: str = "it is the only one"
    knobs: tuple = KNOBS
    settings_type: type = Settings
    manifest: SimpleNamespace = field(default_factory=lambda: SimpleNamespace(key="fake-key"))
    native: SimpleNamespace = field(
        default_factory=lambda: SimpleNamespace(ISA="fake-isa", make_pool=FakePool, checksum=lambda *_: 0)
    )


class FakePool:
    threads = 3

    def __init__(self, knobs):
        assert all(isinstance(text, str) for pair in knobs for text in pair)

    def close(self):
        pass


@dataclass
class FakeCache:
    capacity: int
    ids: list = field(default_factory=list)

    @property
    def length(self):
        return len(self.ids)

    @length.setter
    def length(self, length):
        del self.ids[length:]
        self.ids += [0] * (length - len(self.ids))

    @property
    def bytes(self):
        return self.capacity * 64

    def begin(self, length):
        return torch.tensor(self.ids[:length]).reshape(1, 1, 1, -1)

    def on_host(self, length):
        return self.begin(length)

    def fill(self, begin):
        self.ids[:] = begin.flatten().tolist()

    def truncate(self, length):
        assert 0 <= length <= len(self.ids)
        del self.ids[length:]


Logits = Callable[[list[int]], np.ndarray]
"""From all tokens read so far to the logits of the next one, float32 [vocab]."""


class FakeModel:
    """A network whose logits are any function of the tokens read.

    Records the passes, [(tokens, at, logits)], and joint windows: [(tokens, at) of each part].
    """

    def __init__(self, vocab_size, logits: Logits, context_length=64):
        self.logits = logits
        self.passes = []
        self.windows = []
        self.closed = 0
        self.mtp = None
        self.phases = None
        self.expert_hits = None
        self.most_rows = 8
        self.layers_passed = 0
        self.worker_cpus = frozenset()
        self.lanes = threading.local()
        self.is_on_pool = True
        self.info = ModelInfo(
            path=Path("fake"),
            identity="fake-identity",
            family="fake",
            title="Fake",
            vocab_size=vocab_size,
            context_length=context_length,
            hidden_size=8,
            layers=2,
            experts=4,
            experts_per_token=2,
            further_layers=0,
            parameters=1000,
            checkpoint_bytes=4000,
            expert_format="f32",
            expert_bytes=2000,
            dense_bytes=500,
            head_bytes=300,
            arranged_bytes=0,
            eos_ids=(),
            notes=(),
        )

    def new_cache(self, capacity):
        return FakeCache(capacity)

    def new_states(self, tokens):
        return torch.empty(tokens, self.info.hidden_size)

    def forward(self, ids, cache, *, logits="last", states=None, window=False):
        assert not self.closed
        assert ids.dtype == torch.int64
        assert len(ids) > 0
        assert cache.length + len(ids) <= cache.capacity
        self.passes.append((len(ids), cache.length, logits))
        self.layers_passed += 1
        rows = []
        if states is not None:
            states[:] = torch.arange(cache.length, cache.length + len(ids))[:, None]
        for token in ids.tolist():
            cache.ids.append(token)
            rows.append(self.logits(cache.ids))
        found = np.stack(rows if logits == "all" else rows[-1:]).astype(np.float32)
        if not np.isfinite(found).all():
            cache.truncate(cache.length - len(ids))
            raise NotFiniteError(cache.length + len(ids) - 1)
        return torch.from_numpy(found)

    def joint_window(self, parts, states):
        assert not self.closed
        assert self.lane in (None, 0)
        assert 0 < sum(len(ids) for ids, _ in parts) <= self.most_rows
        if self.lane is None:  # an engine's own text
            self.passes += [(len(ids), cache.length, "all") for ids, cache in parts]
        else:
            self.windows.append([(len(ids), cache.length) for ids, cache in parts])
        rows = []
        for ids, cache in parts:
            for token in ids:
                if states is not None:
                    states[len(rows)] = cache.length
                cache.ids.append(token)
                rows.append(self.logits(cache.ids))
        logits = torch.from_numpy(np.stack(rows).astype(np.float32))
        return Outcome.on_cpu(logits)

    @property
    def lane(self):
        return getattr(self.lanes, "lane", None)

    @contextmanager
    def working(self, lane):
        self.lanes.lane = lane
        yield

    @contextmanager
    def going_first(self):
        yield

    def settle(self):
        pass

    @contextmanager
    def computing(self, native, pool, around=None):
        assert native.ISA == "fake-isa"
        yield

    def close(self):
        self.closed += 1


def scripted(vocab_size, prompt_length, tokens) -> Logits:
    """Logits whose best token is the next of `tokens`, by the number of tokens read."""

    def logits(read):
        row = np.zeros(vocab_size, np.float32)
        row[tokens[(len(read) - prompt_length) % len(tokens)]] = 10.0
        return row

    return logits


def hashed(vocab_size) -> Logits:
    """Logits that look random and depend on every token read."""

    def logits(read):
        seed = np.random.SeedSequence(read).generate_state(1)[0]
        return np.random.default_rng(seed).normal(size=vocab_size).astype(np.float32) * 2

    return logits


def load_engine(monkeypatch, folder, model, **options) -> Engine:
    """Load a folder with doubles in place of package and network."""
    monkeypatch.setattr("strata_runtime.engine.Model.load", lambda *_: model)
    return Engine.load(folder, provider=FakeProvider(), environ=options.pop("environ", {}), **options)


def patch_command_line(monkeypatch, model) -> None:
    """Let commands that run in this process find the doubles, and no variables of the real environment."""
    # Where it is used, not where it is defined: a module first imported meanwhile would keep the double for good.
    monkeypatch.setattr("strata_runtime.cli.knob_command.find_provider", lambda _: FakeProvider())
    monkeypatch.setattr("strata_runtime.engine.find_provider", lambda _: FakeProvider())
    monkeypatch.setattr("strata_runtime.engine.Model.load", lambda *_: model)
    for name in [name for name in os.environ if name.startswith("STRATA_")]:
        monkeypatch.delenv(name)
