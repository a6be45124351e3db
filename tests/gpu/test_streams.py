"""What a GPU is given beside windows, with doubles of its streams: order, reuse of memory, what is waited for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from strata_runtime.device import feed as feeding
from strata_runtime.device import registered
from strata_runtime.device.feed import Feed
from strata_runtime.device.graphs import Graphs
from strata_runtime.device.registered import Registered
from strata_runtime.errors import UserError
from strata_runtime.layers.kv_cache import KVCache
from strata_runtime.layers.passes import Pass

CUDA = torch.device("cuda")
BUFFER = 1000


class FakeEvent:
    """An event that nobody may go on from before it was waited for."""

    def __init__(self) -> None:
        self.is_pending = False

    def record(self) -> None:
        assert not self.is_pending, "a buffer was filled again before its copy had ended"
        self.is_pending = True

    def synchronize(self) -> None:
        self.is_pending = False


@pytest.fixture
def feed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], Feed]]:
    made: list[Feed] = []
    monkeypatch.setattr(feeding, "make_stream", lambda *_, **__: SimpleNamespace(record_event=lambda event: event))
    monkeypatch.setattr(feeding, "sleeping_event", FakeEvent)
    monkeypatch.setattr(feeding, "_pinned", lambda size: torch.zeros(size, dtype=torch.uint8))
    monkeypatch.setattr(feeding, "_BUFFER_BYTES", BUFFER)
    monkeypatch.setattr(feeding, "_AT_ONCE", BUFFER // 3)
    monkeypatch.setattr(torch.cuda, "stream", lambda _: nullcontext())

    def make(threads: int) -> Feed:
        made.append(Feed(CUDA, threads))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.mark.parametrize("threads", [1, 3, 16])
@pytest.mark.parametrize("sizes", [[1] * 30, [BUFFER], [7, 5000, 0, 993, 1, 2500], [300] * 40, []])
def test_memory_that_is_not_registered_arrives_through_buffers(
    sizes: list[int], threads: int, feed: Callable[[int], Feed]
) -> None:
    sources = [torch.randint(0, 256, (size,), dtype=torch.uint8) for size in sizes]
    places = [torch.zeros_like(source) for source in sources]
    for _ in range(2):
        feed(threads).copy(zip(sources, places, strict=True), is_registered=False)
        for source, place in zip(sources, places, strict=True):
            assert torch.equal(source, place)
            place.zero_()


def test_small_pieces_share_a_buffer_and_its_threads(
    feed: Callable[[int], Feed], monkeypatch: pytest.MonkeyPatch
) -> None:
    filled: list[int] = []
    fill = feeding._fill

    def noting(pieces: Any) -> None:
        filled.append(sum(source.numel() for source, _ in pieces))
        fill(pieces)

    monkeypatch.setattr(feeding, "_fill", noting)
    sources = torch.zeros(100, 40, dtype=torch.uint8)
    feed(4).copy(zip(sources, torch.zeros_like(sources), strict=True), is_registered=False)
    assert filled == [BUFFER // 4] * 16


def test_registered_memory_is_let_go_behind_what_was_launched(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[object] = []
    runtime = SimpleNamespace(
        cudaHostRegister=lambda address, *_: 0 if address < 3 else 2, cudaHostUnregister=done.append
    )
    monkeypatch.setattr(registered, "_runtime", lambda: runtime)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda _: done.append("all has run"))
    memory = Registered(CUDA, [(1, 10), (2, 10)])
    memory.close()
    memory.close()
    assert done == ["all has run", 2, 1]
    with pytest.raises(UserError, match="the GPU cannot map 30 B of"):
        Registered(CUDA, [(1, 10), (3, 30)])
    assert done[3:] == ["all has run", 1]


def test_a_graph_is_of_caches_at_their_addresses() -> None:
    compute: Any = SimpleNamespace(device=torch.device("cpu"))
    graphs, executor = Graphs(compute), SimpleNamespace(key=None)
    data, angles = torch.zeros(1, 2, 1, 4, 2), torch.zeros(4, 2, 1)

    def key(cache: KVCache) -> object:
        return graphs._key(Pass([1], ((1, cache),), executor, "all", None, is_window=True))  # type: ignore[arg-type]

    assert key(KVCache(data, angles)) == key(KVCache(data, angles))
    assert key(KVCache(data, angles)) != key(KVCache(data, angles.clone())), "rotary angles were allocated anew"
    assert key(KVCache(data, angles)) != key(KVCache(data[:, :, :, :3], angles))


def test_graphs_share_the_memory_of_one_that_is_kept() -> None:
    compute: Any = SimpleNamespace(device=torch.device("cpu"))
    graphs = Graphs(compute)

    def captured(number: int) -> Any:
        return SimpleNamespace(graphs=(SimpleNamespace(pool=lambda: (number, 0)),))

    graphs._keep("seen once", None)
    assert graphs._pool() is None
    graphs._keep("first", captured(1))
    assert graphs._pool() == (1, 0)
    for number in range(200):
        graphs._keep(number, None)
    assert graphs._pool() is None, "the only one that had it is gone"
