"""`python fake_command.py ARGS`: the `strata` command in a process of its own, over doubles of package and network.

The network answers with the text of FAKE_ANSWER again and again. Each pass takes FAKE_DELAY seconds; the first one
makes the file FAKE_MARK.
"""

import os
import time
from pathlib import Path

import strata_runtime.engine
import strata_runtime.provider
from strata_runtime.cli.main import main
from support.fake_engine import FakeModel, FakeProvider, scripted
from support.text_models import byte_level

VOCAB = 300


class SlowModel(FakeModel):
    def forward(self, ids, cache, **more):
        if mark := os.environ.get("FAKE_MARK"):
            Path(mark).touch()
        time.sleep(float(os.environ.get("FAKE_DELAY", "0")))
        return super().forward(ids, cache, **more)


def answering(text: str) -> FakeModel:
    """A network that says `text` after a prompt of three tokens, for ever."""
    return SlowModel(VOCAB, scripted(VOCAB, 3, byte_level().encode(text).ids), context_length=100_000)


if __name__ == "__main__":
    strata_runtime.provider.find_provider = strata_runtime.engine.find_provider = lambda _: FakeProvider()
    strata_runtime.engine.Model.load = lambda *_: answering(os.environ.get("FAKE_ANSWER", "héllo "))
    main()
