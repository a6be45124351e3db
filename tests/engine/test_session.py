"""What numbers depend on, in one fingerprint."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from strata_runtime.checkpoint.identity import identity
from strata_runtime.checkpoint.source import open_checkpoint
from strata_runtime.knobs import resolve
from strata_runtime.provider import Provider
from strata_runtime.session import Session, read_session, session_of
from support.checkpoints import make_config, write_checkpoint
from support.compiled import compiled_provider
from support.fake_engine import KNOBS, FakeProvider, knob

PROFILE = knob("expert.profile", "path", None, output="reorders")


def session(environ: Mapping[str, str] | None = None, **kernels: str) -> Session:
    provider = FakeProvider(knobs=(*KNOBS, PROFILE))
    if kernels:
        provider.manifest = SimpleNamespace(key=kernels.get("key", "fake-key"))
        provider.native.ISA = kernels.get("level", "fake-isa")
    resolution = resolve(provider.knobs, environ=environ or {})
    return session_of("m", 0, provider, resolution)  # type: ignore[arg-type]


def test_knobs_that_cannot_change_the_output_do_not_count() -> None:
    assert session({"STRATA_POOL_THREADS": "3", "STRATA_WINDOW_WIDTH": "4"}) == session()
    assert dict(session().knobs).keys() == {"route.tail_skip", "expert.profile"}


def test_all_else_counts() -> None:
    sessions = [
        session(),
        session({"STRATA_ROUTE_TAIL_SKIP": "3"}),
        session(key="rebuilt"),
        session(level="avx2"),
        replace(session(), model="another"),
        replace(session(), arranged_bytes=1),
    ]
    assert len({each.fingerprint for each in sessions}) == len(sessions)
    assert all(len(each.fingerprint) == 16 for each in sessions)
    assert [list(each.differences(sessions[0])) for each in sessions] == [
        [],
        ["route.tail_skip=3, not 0"],
        ["another kernels package"],
        ["another kernels package"],
        ["another model"],
        ["another layout of weights"],
    ]


def test_a_file_counts_by_its_content(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in "abc"]
    for path, content in zip(paths, ("x", "x", "y"), strict=True):
        path.write_text(content)
    a, b, c = (session({"STRATA_EXPERT_PROFILE": str(path)}) for path in paths)
    assert a == b != c


def test_a_session_comes_back_from_its_text() -> None:
    assert read_session(session().as_text()) == session()


@pytest.fixture(scope="module")
def provider() -> Provider:
    return compiled_provider()


def identity_of(folder: Path, provider: Provider) -> str:
    return identity(open_checkpoint(folder, provider.families, provider.formats))


@pytest.mark.native
def test_a_model_is_itself_wherever_it_lies_and_another_with_other_weights_or_config(
    provider: Provider, tmp_path: Path
) -> None:
    config = make_config()
    first = write_checkpoint(tmp_path / "first", config)
    known = identity_of(first, provider)
    assert len(known) == 32
    assert identity_of(first.rename(tmp_path / "moved"), provider) == known
    changed = json.loads((tmp_path / "moved" / "config.json").read_text())
    changed["rope_theta"] = 12345.0
    other = write_checkpoint(tmp_path / "other", config)
    (other / "config.json").write_text(json.dumps(changed))
    assert identity_of(other, provider) != known
    weights = next((tmp_path / "moved").glob("*.safetensors"))
    data = np.fromfile(weights, np.uint8)
    data[int.from_bytes(data[:8].tobytes(), "little") + 8 :] ^= 1
    data.tofile(weights)
    assert identity_of(tmp_path / "moved", provider) != known
