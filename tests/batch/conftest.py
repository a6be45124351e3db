import pytest

from strata_runtime.batch import Batch
from support.batches import VOCAB
from support.fake_engine import FakeModel, hashed, load_engine
from support.text_models import write_folder

MODES = {
    "off": {},
    "pieces": {"piped_piece": 20},
    "beside": {"piped_concurrent": True},
}


@pytest.fixture(params=MODES)
def mode(request):
    return MODES[request.param]


@pytest.fixture
def start(monkeypatch, tmp_path):
    """Start a batch over a scripted network; return it with its engine."""
    folder = write_folder(tmp_path / "model")
    running = []

    def make(model=None, **options):
        options = {"batch_slots": 3, "engine_prompt_chunk": 16, **options}
        model = model or FakeModel(VOCAB, hashed(VOCAB), context_length=512)
        engine = load_engine(monkeypatch, folder, model, **options)
        running.append(Batch(engine))
        return running[-1], engine

    yield make
    for batch in running:
        batch.close()


@pytest.fixture
def alone(monkeypatch, tmp_path):
    """What requests give on an engine of their own."""
    model = FakeModel(VOCAB, hashed(VOCAB), context_length=512)
    engine = load_engine(monkeypatch, write_folder(tmp_path / "alone"), model)
    return lambda ids, sampling, **request: engine.generate(ids, sampling, **request).run()
