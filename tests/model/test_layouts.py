"""Weights may be arranged in memory for the kernels: when that is done, what it takes, what it gives back."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from strata_runtime.checkpoint.stored import Stored
from strata_runtime.checkpoint.weights import LayerWeights, Weights
from strata_runtime.errors import UserError
from strata_runtime.knobs import resolve
from strata_runtime.layers import layout as layout_module
from strata_runtime.layers.layout import Choice, WeightLayout, choose_layout
from strata_runtime.layers.placing import InFile
from strata_runtime.memory import Arena, available_bytes, release
from strata_runtime.model import Model
from strata_runtime.provider import Provider, make_pool
from support.compiled import compiled_provider

IDS = torch.arange(1, 31)
MIB = 1 << 20

Load = Callable[..., Model]


@pytest.fixture
def load() -> Iterator[Load]:
    """Loads models on the compiled kernels of this CPU, experts in Q8_0, other knobs as given. Closes them."""
    models: list[Model] = []

    def load_with(folder: Path, **python: object) -> Model:
        provider = compiled_provider()
        resolution = resolve(provider.knobs, environ={}, python={"engine_expert_format": "q8_0", **python})
        models.append(Model.load(folder, provider, provider.settings_type.from_values(resolution.values)))
        return models[-1]

    yield load_with
    for model in models:
        model.close()


@pytest.fixture
def provider() -> Provider:
    """The compiled kernels, where they have a compute layout for Q8_0."""
    found = compiled_provider()
    pool = found.native.make_pool([])
    has = found.native.layout(pool, "q8_0") is not None
    pool.close()
    if not has:
        pytest.skip("the kernels of this CPU read Q8_0 as it is stored")
    return found


def logits(model: Model) -> torch.Tensor:
    return model.forward(IDS, model.new_cache(64), logits="all").log_softmax(-1)


@pytest.mark.native
def test_both_layouts_give_the_same_but_for_rounding(tiny: Path, load: Load, provider: Provider) -> None:
    stored, compute = load(tiny, engine_weight_layout="stored"), load(tiny, engine_weight_layout="compute")
    assert stored.info.arranged_bytes == 0
    assert compute.info.expert_bytes == stored.info.expert_bytes
    assert compute.info.arranged_bytes >= compute.info.expert_bytes
    torch.testing.assert_close(logits(compute), logits(stored), atol=1e-4, rtol=0)


@pytest.mark.native
def test_auto_arranges_when_memory_suffices(tiny: Path, load: Load, provider: Provider) -> None:
    auto, compute = load(tiny), load(tiny, engine_weight_layout="compute")
    assert auto.info.arranged_bytes == compute.info.arranged_bytes
    assert auto.info.notes == ()
    assert torch.equal(logits(auto), logits(compute))


@pytest.mark.native
def test_with_little_memory_weights_stay_as_they_are_stored_and_a_note_says_so(
    tiny: Path, load: Load, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout_module, "available_bytes", lambda root: 100 * MIB)
    short, stored = load(tiny), load(tiny, engine_weight_layout="stored")
    (note,) = short.info.notes
    assert "weights stay as they are stored" in note
    assert "and 100.0 MiB are available (engine.weight_layout)" in note
    assert short.info.arranged_bytes == 0
    assert torch.equal(logits(short), logits(stored))
    assert load(tiny, engine_weight_layout="compute").info.arranged_bytes > 0  # asked for, so memory is not judged


def one_matrix(provider: Provider, name: str, rows: int, columns: int) -> Weights:
    form = next(form for form in provider.formats if form.name == name)
    head = Stored("a test", form, (rows, columns), np.zeros(rows * form.row_bytes(columns), np.uint8))
    return Weights({"embedding": head}, (LayerWeights(),), 0, rows * columns)


def choose(provider: Provider, pool: Any, weights: Weights, choice: WeightLayout, reserved: int = 0) -> Choice:
    return choose_layout(provider.native, pool, weights.head, weights.layers, None, choice, reserved)


@pytest.fixture
def pool(provider: Provider) -> Iterator[Any]:
    settings = provider.settings_type.from_values(resolve(provider.knobs, environ={}).values)
    made = make_pool(provider, settings)
    yield made
    made.close()


@pytest.mark.native
def test_auto_leaves_memory_for_what_is_to_come(provider: Provider, pool: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout_module, "available_bytes", lambda root: 300 * MIB)
    weights = one_matrix(provider, "q8_0", 64, 64)
    fits, short = (choose(provider, pool, weights, "auto", reserved=size * MIB) for size in (43, 44))
    assert (fits.arranged_bytes, fits.notes, isinstance(fits.placer, InFile)) == (0, (), False)
    assert isinstance(short.placer, InFile)
    assert "300.0 MiB are available beside the KV cache of 44.0 MiB" in short.notes[0]


@pytest.mark.native
def test_memory_that_the_system_refuses(provider: Provider, pool: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(layout_module, "Arranger", refuse)
    weights = one_matrix(provider, "q8_0", 64, 64)
    with pytest.raises(UserError, match=r"engine.weight_layout compute takes 4.\d KiB, and the system gives no such"):
        choose(provider, pool, weights, "compute")
    choice = choose(provider, pool, weights, "auto")
    assert isinstance(choice.placer, InFile)
    assert "the system gives no such memory" in choice.notes[0]


@pytest.mark.native
def test_auto_leaves_layouts_that_take_much_more(provider: Provider, pool: Any) -> None:
    weights = one_matrix(provider, "iq3_s", 64, 256)
    auto = choose(provider, pool, weights, "auto")
    assert (isinstance(auto.placer, InFile), auto.notes) == (True, ())
    compute = choose(provider, pool, weights, "compute")
    place = compute.placer.place(weights.head)
    assert place.layout is not None
    assert 1.2 < place.bytes / len(weights.head.data) < 1.3
    assert compute.arranged_bytes == place.bytes


@pytest.mark.native
def test_large_matrices_are_arranged_piece_by_piece(
    provider: Provider, pool: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = one_matrix(provider, "q8_0", 100, 64)
    head = Stored("a test", weights.head.form, (100, 64), np.random.default_rng(0).integers(0, 256, 6800, np.uint8))
    whole = choose(provider, pool, weights, "compute").placer.place(head)
    monkeypatch.setattr("strata_runtime.layers.placing._PIECE_BYTES", 2500)
    pieces = choose(provider, pool, weights, "compute").placer.place(head)
    assert ctypes.string_at(whole.address, whole.bytes) == ctypes.string_at(pieces.address, pieces.bytes)


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


MEMINFO = "MemTotal:       8000 kB\nMemFree:  10 kB\nMemAvailable:    4000 kB\n"
RECORDED = """\
MemTotal:       24684084 kB
MemFree:         5395892 kB
MemAvailable:   17463560 kB
Buffers:          370356 kB
Cached:         11084640 kB
AnonPages:       5803072 kB
Mapped:           390384 kB
Shmem:              8872 kB
Slab:            1111876 kB
SReclaimable:    1026364 kB
SUnreclaim:        85512 kB
KernelStack:        2696 kB
PageTables:        20592 kB
SecPageTables:         0 kB
Percpu:             1120 kB
Balloon:               0 kB
Hugetlb:               0 kB
"""
GROWING = RECORDED.replace("5395892", " 195892").replace("17463560", " 1463560").replace("11084640", "  284640")
TAKEN_BACK = GROWING.replace("Balloon:               0", "Balloon:        15000000")
HELD = 5803072 + 8872 + 85512 + 2696 + 20592 + 1120


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, None),
        ({"proc/meminfo": "MemTotal: 8000 kB\n"}, None),
        ({"proc/meminfo": MEMINFO}, 4000 * 1024),
        ({"proc/meminfo": MEMINFO, "proc/self/cgroup": "0::/a/b\n"}, 4000 * 1024),
        ({"proc/meminfo": RECORDED}, 17463560 * 1024),
        ({"proc/meminfo": GROWING}, (24684084 - HELD) * 1024 - 24684084 * 1024 // 16),
        ({"proc/meminfo": TAKEN_BACK}, (24684084 - HELD - 15000000) * 1024 - 24684084 * 1024 // 16),
        ({"proc/meminfo": GROWING.replace("AnonPages", "Anon")}, 1463560 * 1024),
        ({"proc/meminfo": GROWING.replace("24684084", " 5000000")}, 1463560 * 1024),
        (
            {
                "proc/meminfo": GROWING,
                "proc/self/cgroup": "0::/a\n",
                "sys/fs/cgroup/a/memory.max": "9000\n",
                "sys/fs/cgroup/a/memory.current": "8000\n",
            },
            1000,
        ),
        (
            {
                "proc/meminfo": MEMINFO,
                "proc/self/cgroup": "0::/a/b\n",
                "sys/fs/cgroup/a/b/memory.max": "max\n",
                "sys/fs/cgroup/a/b/memory.current": "5000\n",
                "sys/fs/cgroup/a/memory.max": "9000\n",
                "sys/fs/cgroup/a/memory.current": "8000\n",
                "sys/fs/cgroup/a/memory.stat": "anon 1\nactive_file 1500\ninactive_file 500\n",
            },
            3000,
        ),
        (
            {
                "proc/meminfo": MEMINFO,
                "proc/self/cgroup": "0::/not/visible\n",
                "sys/fs/cgroup/memory.max": "9000\n",
                "sys/fs/cgroup/memory.current": "9500\n",
            },
            0,
        ),
        (
            {
                "proc/meminfo": MEMINFO,
                "proc/self/cgroup": "5:cpu,cpuacct:/c\n4:memory:/m\n",
                "sys/fs/cgroup/memory/m/memory.limit_in_bytes": "9000\n",
                "sys/fs/cgroup/memory/m/memory.usage_in_bytes": "8000\n",
                "sys/fs/cgroup/memory/m/memory.stat": "active_file 1\ntotal_active_file 700\ntotal_inactive_file 300\n",
            },
            2000,
        ),
    ],
)
def test_memory_that_can_be_had(tmp_path: Path, files: dict[str, str], expected: int | None) -> None:
    assert available_bytes(write(tmp_path, files)) == expected


def test_this_machine_says_how_much_it_has() -> None:
    found = available_bytes()
    assert found is not None
    assert found > MIB


def test_an_arena_hands_out_aligned_memory_until_it_is_used_up() -> None:
    arena = Arena(256)
    first, second = arena.take(1), arena.take(100)
    assert first % 64 == 0
    assert second - first == 64
    assert arena.used == 192
    with pytest.raises(MemoryError, match="64 bytes more than were reserved"):
        arena.take(65)


def test_more_memory_than_there_is() -> None:
    with pytest.raises(MemoryError):
        Arena(1 << 62)


def resident(mapping: mmap.mmap) -> int:
    """Bytes of a mapping that are in this process's memory."""
    start = np.frombuffer(mapping, np.uint8).ctypes.data
    lines = iter(Path("/proc/self/smaps").read_text().splitlines())
    for line in lines:
        if line.startswith(f"{start:x}-"):
            return next(int(each.split()[1]) * 1024 for each in lines if each.startswith("Rss:"))
    raise AssertionError("no such mapping")


def test_released_bytes_of_a_file_leave_memory_and_stay_what_they_are(tmp_path: Path) -> None:
    path = tmp_path / "file"
    written = np.random.default_rng(0).integers(0, 256, 8 * MIB, np.uint8)
    path.write_bytes(written.tobytes())
    with path.open("rb") as file:
        mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    data = np.frombuffer(memoryview(mapping)[100:], np.uint8)
    assert data.sum() == written[100:].sum()
    assert resident(mapping) == 8 * MIB
    release(data[4 * MIB :])
    assert resident(mapping) < 5 * MIB
    assert np.array_equal(data, written[100:])


def test_bytes_of_no_file_are_not_touched() -> None:
    data = np.arange(1 << 16, dtype=np.uint8)
    release(data)
    release(np.frombuffer(bytes(range(256)) * 64, np.uint8))
    assert np.array_equal(data, np.arange(1 << 16, dtype=np.uint8))
