"""A server over doubles of package, network and batch, and clients of it."""

from __future__ import annotations

from contextlib import ExitStack

import httpx2
import pytest

from support.fake_engine import FakeModel, hashed, load_engine
from support.serving import FakeBatch, Running, running, saying
from support.text_models import write_folder

ANSWER = "Grüße, 世界 🙂!"


@pytest.fixture(scope="session")
def engine(tmp_path_factory):
    folder = write_folder(tmp_path_factory.mktemp("served") / "model")
    # The doubles take the real ones' place while it is loaded and no longer: other tests load real models.
    with pytest.MonkeyPatch.context() as patch:
        engine = load_engine(patch, folder, FakeModel(300, hashed(300), 400))
    with engine:
        yield engine


@pytest.fixture(scope="module")
def shared(engine):
    """One server for the tests that need no options of their own."""
    with running(engine, FakeBatch(engine, saying(engine, ANSWER)), model="fake", body_bytes=1 << 16) as server:
        yield server


@pytest.fixture
def server(engine, shared) -> Running:
    """The shared server; its batch gives the same answer to everybody unless a test says otherwise."""
    shared.batch.forget()
    shared.batch.script = saying(engine, ANSWER)
    return shared


@pytest.fixture
def batch(server) -> FakeBatch:
    return server.batch


@pytest.fixture
def client(server):
    with httpx2.Client(base_url=server.url, timeout=20) as client:
        yield client


@pytest.fixture
def serve(engine):
    """Start a server of one's own: a batch's script and places, and options."""
    with ExitStack() as opened:

        def start(script=None, places=1000, **options) -> Running:
            batch = FakeBatch(engine, script or saying(engine, ANSWER), places)
            return opened.enter_context(running(engine, batch, **{"model": "fake", **options}))

        yield start
