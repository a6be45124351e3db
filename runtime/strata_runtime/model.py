"""One loaded network: from token ids to logits."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch

from strata_runtime.assembly import Engines, Plans, assemble
from strata_runtime.checkpoint.identity import identity
from strata_runtime.checkpoint.network import Network, read_network
from strata_runtime.checkpoint.source import open_checkpoint
from strata_runtime.checkpoint.weights import LayerWeights, Weights, load_weights
from strata_runtime.device.shortage import told_what_to_lower
from strata_runtime.errors import NotFiniteError, UserError
from strata_runtime.formats import FormatInfo
from strata_runtime.hybrid.asked import too_wide
from strata_runtime.hybrid.counting import Counting
from strata_runtime.hybrid.placement import Counts
from strata_runtime.layers.buffers import Workspace
from strata_runtime.layers.caches import make_cache
from strata_runtime.layers.compute import Activation, Compute
from strata_runtime.layers.executor import Executor
from strata_runtime.layers.experts import STORED
from strata_runtime.layers.kv_cache import KVCache
from strata_runtime.layers.linear import Linear, floats
from strata_runtime.layers.mtp import Mtp
from strata_runtime.layers.norm import RmsNorm
from strata_runtime.layers.outcome import Outcome
from strata_runtime.layers.passes import Pass
from strata_runtime.layers.pool import PoolCompute
from strata_runtime.layers.reach import Reach
from strata_runtime.layers.stack import Layer, MixturePlace, load_layers
from strata_runtime.native import NativeModule, Pool
from strata_runtime.params import MAX_WINDOW
from strata_runtime.phases import WindowPhases
from strata_runtime.progress import Progress
from strata_runtime.provider import Provider, make_pool

if TYPE_CHECKING:
    from strata_runtime._settings import Settings


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What was loaded.

    `path`: its folder or file. `identity`: hex digits that stay the same wherever it lies. `parameters` counts every
    number of the checkpoint. `expert_format` is the one in memory, `expert_bytes` what all routed experts take in it.
    Every pass reads `head_bytes`, the output matrix, and `dense_bytes`, what else the layers hold beside routed
    experts. `further_layers` predict further tokens, and `window.draft` says whether the first of them is loaded; the
    sizes are those of the network proper, in the stored format. `arranged_bytes`: memory of the weights that were
    arranged for the kernels, 0 when none were. `eos_ids`: what its config says. `notes`: lines about tensors that were
    left out, weights that were not arranged, and settings.
    """

    path: Path
    identity: str
    family: str
    title: str
    vocab_size: int
    context_length: int
    hidden_size: int
    layers: int
    experts: int
    experts_per_token: int
    further_layers: int
    parameters: int
    checkpoint_bytes: int
    expert_format: str
    expert_bytes: int
    dense_bytes: int
    head_bytes: int
    arranged_bytes: int
    eos_ids: tuple[int, ...]
    notes: tuple[str, ...]


class Model:
    """One network on one provider. For one thread on each lane (`working`); the caches that it makes are independent.

    `mtp`: the layer that predicts further tokens, when `window.draft` asks for it. `layers_passed`: by prompts so far,
    which shows others that one is being read.
    """

    def __init__(
        self,
        info: ModelInfo,
        network: Network,
        compute: Compute,
        host: PoolCompute,
        weights: Weights,
        layers: tuple[Layer, ...],
        head: Linear,
        further: Layer | None,
        engines: Engines,
    ) -> None:
        self.info = info
        self._network = network
        self._compute, self._host = compute, host
        tensors = weights.tensors
        self._embedding = compute.embedding(tensors["embedding"])
        self._layers = layers
        windows = engines.windows
        self._prompts, self._drafts, self._runner = engines.prompts, engines.drafts, engines.runner
        self._windows: Executor = windows.executor or self._prompts
        self._most, self._stopwatch, self._residency = windows.most, windows.stopwatch, windows.residency
        self._mixtures = sum(layer.experts is not None for layer in layers)
        self._norm = RmsNorm(compute, floats(tensors["final_norm"]), network.norm_eps)
        self._head = head
        self._workspace = Workspace(
            compute, network, max(layer.width for layer in (*layers, *((further,) if further else ())))
        )
        self.layers_passed = 0
        self.mtp: Mtp | None = None
        if further is not None:
            own = weights.further[0].tensors
            shared = self._embedding, self._head, self._workspace
            self.mtp = Mtp(compute, own, further, network, *shared, engines.drafts)

    @staticmethod
    @told_what_to_lower("the model")
    def load(
        path: Path,
        provider: Provider,
        settings: Settings,
        progress: Progress | None = None,
        device: torch.device | None = None,
    ) -> Model:
        """Load a checkpoint: a folder or a GGUF file. `settings` is an instance of the provider's `Settings`.

        `device`: where layers work, instead of what the kernels package is for; on `cpu` all that a GPU does is done
        inline.

        Raises `UserError` for whatever is wrong with it, naming file, tensor, what was expected and found.
        """
        checkpoint = open_checkpoint(path, provider.families, provider.formats)
        config = checkpoint.config
        network = read_network(config)
        weights = load_weights(checkpoint.tensors, config, checkpoint.layout, network.layers)
        wanted = _expert_format(provider, settings.engine.expert_format)
        pool = make_pool(provider, settings)
        try:
            drafts = _further(weights, checkpoint.path) if settings.window.draft == "mtp" else None
            all_layers = weights.layers if drafts is None else (*weights.layers, drafts)
            assembly = assemble(Plans(provider, settings, pool, network, weights, all_layers, wanted), device)
            compute, host, layout = assembly.compute, assembly.host, assembly.layout
            layers = load_layers(compute, host, weights.layers, network, wanted, progress or _quiet)
            scales = {role: weights.tensors[role] for role in ("head_scale",) if role in weights.tensors}
            head = Linear(compute, {"head": weights.head, **scales}, "head")
            place = MixturePlace(0, is_last=True)
            further = None if drafts is None else Layer(compute, host, drafts, network, wanted, network.layers, place)
            experts = [layer.experts for layer in layers if layer.experts is not None]
            engines = assembly.engines(experts, None if further is None else further.experts)
            formats = sorted(frozenset[str]().union(*(each.formats for each in experts)))
            info = ModelInfo(
                path=checkpoint.path,
                identity=identity(checkpoint),
                family=config.family.name,
                title=config.family.title,
                vocab_size=network.vocab_size,
                context_length=network.context_length,
                hidden_size=network.hidden_size,
                layers=network.layers,
                experts=network.experts,
                experts_per_token=network.top_k,
                further_layers=len(weights.further),
                parameters=weights.parameters,
                checkpoint_bytes=checkpoint.tensors.bytes,
                expert_format=" and ".join(formats) or "none",
                expert_bytes=sum(each.bytes for each in experts),
                dense_bytes=sum(len(each.data) for layer in weights.layers for each in layer.tensors.values()),
                head_bytes=len(weights.head.data),
                arranged_bytes=layout.arranged_bytes,
                eos_ids=network.eos_ids,
                notes=(*checkpoint.notes, *layout.notes, *engines.windows.notes),
            )
            return Model(info, network, compute, host, weights, layers, head, further, engines)
        except BaseException:
            pool.close()
            raise

    def new_cache(self, capacity: int) -> KVCache:
        """Allocate an empty cache for `capacity` positions. Raises `UserError` when the model cannot use so many."""
        return make_cache(self._compute, self._network, capacity, self._network.layers)

    def new_states(self, tokens: int) -> torch.Tensor:
        """Allocate what `forward` takes as `states`."""
        return self._compute.empty(tokens, self.info.hidden_size)

    @torch.inference_mode()
    def forward(
        self,
        ids: torch.Tensor,
        cache: KVCache,
        *,
        logits: Literal["last", "all"] = "last",
        states: torch.Tensor | None = None,
        window: bool = False,
    ) -> torch.Tensor:
        """Read `ids` (int64 [tokens]) behind what is in `cache`, and append them to it.

        Returns float32 logits [1, vocab_size] of the last token, or [tokens, vocab_size], until the next window; none
        for no tokens.
        `states`: takes what the output layer works on, float32 [tokens, hidden_size]. Up to `MAX_WINDOW` tokens, each
        one's bits are those of reading it alone. `window`: the pass is a verify window, for which `verify.*`,
        `expert.cache` and `route.*` hold; other passes are exact. Activations take memory in proportion to `tokens`, so
        long prompts are read in chunks.

        Raises `UserError` when the cache is full, an id is outside the vocabulary, the result is not finite
        (`NotFiniteError`), or the halves of a window do not meet (`StallError`); the cache is as before then.
        """
        tokens = ids.shape[0]
        cache.require(tokens)
        if tokens == 0:
            return torch.empty(0, self._network.vocab_size)
        listed = ids.tolist()
        if min(listed) < 0 or max(listed) >= self._network.vocab_size:
            raise UserError(f"a token id is outside the vocabulary of {self._network.vocab_size}")
        if window and self._most is not None and tokens > self._most:
            raise UserError(too_wide(tokens, self._most))
        executor = self._windows if window else self._prompts
        with self._compute.passing(), told_what_to_lower(f"a pass of {tokens} tokens"):
            outcome = self._runner.run(self._pass, Pass(listed, ((tokens, cache),), executor, logits, states, window))
            _check_finite(outcome, cache.length + tokens - outcome.logits.shape[0])
        cache.length += tokens
        return outcome.logits

    @torch.inference_mode()
    def joint_window(self, parts: Sequence[tuple[Sequence[int], KVCache]], states: torch.Tensor | None) -> Outcome:
        """Read a verify window of several texts, each behind what is in a cache of its own.

        parts: ids, inside the vocabulary, and cache; together up to `most_rows` tokens. Each one's bits are those of a
        window of its text alone. states: see `forward`. Returns logits of all rows, until the next window. Some may not
        be finite: the others are none the worse.

        Raises `UserError` when a cache is full, and `StallError` as `forward` does; the caches are as before then.
        """
        for some, cache in parts:
            cache.require(len(some))
        ids = [token for some, _ in parts for token in some]
        sizes = tuple((len(some), cache) for some, cache in parts)
        with self._compute.passing(), told_what_to_lower(f"a window of {len(ids)} tokens"):
            outcome = self._runner.run(self._pass, Pass(ids, sizes, self._windows, "all", states, is_window=True))
        for tokens, cache in sizes:
            cache.length += tokens
        return outcome

    @property
    def most_rows(self) -> int:
        """Most tokens of a window."""
        return MAX_WINDOW if self._most is None else min(self._most, MAX_WINDOW)

    @contextmanager
    def working(self, lane: int) -> Iterator[None]:
        """Let the calling thread work on a lane for a while: windows on `WINDOWS`, prompts beside them on another one.

        Passes of prompts that do not fit a window may run on other lanes, one at a time.
        """
        with self._compute.working(lane):
            yield

    @property
    def worker_cpus(self) -> frozenset[int]:
        """CPUs that the pool's workers are pinned to."""
        return frozenset(self._host.pool.cpus)

    def settle(self) -> None:
        """Wait until what the calling thread asked for is done, so that another lane can read it."""
        self._compute.settle()

    @contextmanager
    def going_first(self) -> Iterator[None]:
        """Keep what other lanes ask of the pool from running for a while."""
        pool = self._host.pool
        pool.hold()
        try:
            yield
        finally:
            pool.let_go()

    def _pass(self, ids: torch.Tensor, reach: Reach, work: Pass) -> torch.Tensor:
        buffers = self._workspace.buffers(ids.shape[0])
        self._embedding(ids, buffers.hidden)
        for index, layer in enumerate(self._layers):
            work.before_layer(index)
            layer(buffers, reach, index, work.executor)
            self.layers_passed += not work.is_window
        result = self._logits(buffers.hidden, work.logits, work.states)
        work.executor.laps.lap("head")
        return result

    def _logits(
        self, hidden: torch.Tensor, logits: Literal["last", "all"], states: torch.Tensor | None
    ) -> torch.Tensor:
        first = 0 if logits == "all" else hidden.shape[0] - 1
        if states is None:
            normed = self._compute.activation(*hidden[first:].shape)
            self._norm(hidden[first:], out=normed)
        else:
            self._norm(hidden, out=Activation(states))
            normed = Activation(states[first:])
        result = self._compute.empty(normed.values.shape[0], self._network.vocab_size)
        self._head(normed, result)
        return result

    @contextmanager
    def counting(self) -> Iterator[Counts]:
        """Count the experts that are chosen for a while, [layers with routed experts, experts]."""
        own = self._prompts, self._windows
        counts = np.zeros((self._mixtures, self._network.experts), np.int64)
        self._prompts, self._windows = Counting(own[0], counts), Counting(own[1], counts)
        try:
            yield counts
        finally:
            self._prompts, self._windows = own

    @contextmanager
    def computing(
        self, native: NativeModule, pool: Pool, around: Callable[[Executor], Executor] | None = None
    ) -> Iterator[None]:
        """Work with another module and pool for a while; the weights stay where they are.

        The host half of windows shares the pool. `around`: puts something around the executors.
        """
        host = self._host
        own, executors = (host.native, host.pool), (self._prompts, self._windows)
        host.native, host.pool = native, pool
        if around is not None:
            self._prompts, self._windows = map(around, executors)
        try:
            yield
        finally:
            host.native, host.pool = own
            self._prompts, self._windows = executors

    @property
    def is_on_pool(self) -> bool:
        """Whether the pool computes the layers; calls of it can be timed one by one then."""
        return self._compute is self._host

    @property
    def phases(self) -> WindowPhases | None:
        """Where the time of windows went so far; None unless `verify.profile` is on."""
        return None if self._stopwatch is None else self._stopwatch.phases

    @property
    def expert_hits(self) -> tuple[int, int] | None:
        """Entries of windows so far whose expert had a slot, and all; None where experts have no slots."""
        residency = self._residency
        if residency is None or not residency.slots:
            return None
        with_slot, asked = residency.entries.tolist()
        return with_slot, asked

    def close(self) -> None:
        """Stop the workers. The model cannot be used after that. Idempotent."""
        for executor in (self._windows, self._prompts, self._drafts):
            executor.close()
        self._host.pool.close()


def _further(weights: Weights, path: Path) -> LayerWeights:
    if not weights.further:
        raise UserError(
            f"{path}: has no layer that predicts further tokens, so it cannot draft for itself (window.draft is mtp): "
            "the drafter ngram works with every model, and none drafts nothing"
        )
    return weights.further[0]


def _check_finite(outcome: Outcome, position: int) -> None:
    logits = outcome.logits
    if math.isfinite(outcome.total) or bool(torch.isfinite(logits).all()):
        return
    row = int((~torch.isfinite(logits)).any(-1).nonzero()[0])
    raise NotFiniteError(position + row)


def _quiet(done: int, total: int) -> None:
    """Report nothing."""


def _expert_format(provider: Provider, name: str) -> FormatInfo | None:
    """Look up the format to re-encode experts in; None to keep them."""
    return None if name == STORED else next(form for form in provider.formats if form.name == name)
