"""`python fake_serve.py ARGS`: `strata serve` in a process of its own, over doubles of package, network and batch.

The batch says FAKE_ANSWER again and again, FAKE_DELAY seconds before each token, to at most FAKE_PLACES at a time.
"""

import os

import strata_runtime.batch.batch
import strata_runtime.cli.knob_command
import strata_runtime.engine
from strata_runtime.cli.main import main
from support.fake_engine import FakeModel, FakeProvider, hashed
from support.serving import FakeBatch, saying


def _batch(engine) -> FakeBatch:
    pause = float(os.environ.get("FAKE_DELAY", "0"))
    script = saying(engine, os.environ.get("FAKE_ANSWER", "héllo "), repeat=True, pause=pause)
    return FakeBatch(engine, script, int(os.environ.get("FAKE_PLACES", "1000")))


if __name__ == "__main__":
    for module in (strata_runtime.cli.knob_command, strata_runtime.engine):
        module.find_provider = lambda _: FakeProvider()
    strata_runtime.engine.Model.load = lambda *_: FakeModel(300, hashed(300), context_length=100_000)
    strata_runtime.batch.batch.Batch = _batch
    main()
