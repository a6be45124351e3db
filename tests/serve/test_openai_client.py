"""`strata serve` on strata-tiny, asked by the `openai` package as it is."""

import re
import signal
import threading

import httpx2
import openai
import pytest

from strata_runtime import Engine, SamplingParams
from support.compiled import compiled_provider
from support.served import ROOT, strata
from support.serving import until

MODEL = ROOT / "examples" / "models" / "strata-tiny"
PROMPT = "def read_lines(path):\n"
CHAT = [{"role": "user", "content": "Read a JSON file and return its content as a dict."}]

pytestmark = pytest.mark.native


@pytest.fixture(scope="module")
def provider():
    return compiled_provider()


@pytest.fixture(scope="module")
def server(provider):
    options = ["--batch", 4, "--batch-queue", 8, "--engine-context", 512, "--verify-profile", "--api-key", "sesame"]
    with strata("--model", MODEL, *options, STRATA_PROVIDER_PATH=str(provider.folder)) as server:
        yield server
        assert server.stop(signal.SIGTERM) == 0
    assert [line for line in server.lines if line["event"] == "fault"] == []


@pytest.fixture
def client(server):
    with openai.OpenAI(base_url=server.url + "/v1", api_key="sesame", max_retries=0, timeout=60) as client:
        yield client


@pytest.fixture(scope="module")
def alone(provider):
    """What the engine alone writes."""
    with Engine.load(MODEL, provider=provider, environ={}, engine_context=512) as engine:

        def write(prompt, sampling, **options):
            return engine.generate(prompt, sampling, **options).run()

        yield write


def text_of(stream):
    return "".join(each.choices[0].delta.content or "" for each in stream if each.choices)


def test_models(client):
    assert [model.id for model in client.models.list()] == ["strata-tiny"]
    assert client.models.retrieve("strata-tiny").id == "strata-tiny"


@pytest.mark.parametrize("sampling", [SamplingParams(temperature=0), SamplingParams(temperature=0.8, seed=7)])
def test_the_text_is_that_of_the_engine_alone(client, alone, sampling):
    expected = alone(PROMPT, sampling, max_tokens=40)
    found = client.completions.create(
        model="strata-tiny", prompt=PROMPT, max_tokens=40, temperature=sampling.temperature, seed=sampling.seed
    )
    assert found.choices[0].text == expected.text
    assert found.choices[0].finish_reason == expected.finish_reason
    assert found.usage.prompt_tokens == expected.usage.prompt_tokens
    assert found.usage.completion_tokens == expected.usage.completion_tokens


def test_a_stream_is_the_whole_answer_in_pieces(client, alone):
    options = {"model": "strata-tiny", "messages": CHAT, "temperature": 0, "max_completion_tokens": 50}
    pieces = list(client.chat.completions.create(**options, stream=True, stream_options={"include_usage": True}))
    assert pieces[0].choices[0].delta.role == "assistant"
    assert pieces[-2].choices[0].finish_reason in {"stop", "length"}
    assert pieces[-1].usage.completion_tokens <= 50
    assert len(pieces) > 10
    whole = client.chat.completions.create(**options)
    assert text_of(pieces) == whole.choices[0].message.content
    assert whole.choices[0].message.content == alone(CHAT, SamplingParams(temperature=0), max_tokens=50).text
    assert whole.system_fingerprint == pieces[0].system_fingerprint != ""


def test_four_at_once_write_what_they_write_alone(client, alone):
    prompts = [PROMPT, "import os\n", "class Cache:\n", '"""Utilities for']
    expected = {prompt: alone(prompt, SamplingParams(temperature=0), max_tokens=40).text for prompt in prompts}
    found = {}

    def ask(prompt):
        found[prompt] = (
            client.completions.create(model="strata-tiny", prompt=prompt, max_tokens=40, temperature=0).choices[0].text
        )

    threads = [threading.Thread(target=ask, args=(prompt,)) for prompt in prompts]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert found == expected


def test_a_stop_string_across_tokens_ends_the_text(client, alone):
    text = alone(PROMPT, SamplingParams(temperature=0), max_tokens=60).text
    stop = text[20:26]
    for stream in (False, True):
        options = {"model": "strata-tiny", "prompt": PROMPT, "max_tokens": 60, "temperature": 0, "stop": [stop]}
        found = client.completions.create(**options, stream=stream)
        made = "".join(each.choices[0].text for each in found) if stream else found.choices[0].text
        assert made == text[: text.index(stop)]


def test_a_seed_repeats_a_text(client):
    options = {"model": "strata-tiny", "messages": CHAT, "temperature": 1.0, "max_tokens": 30}
    texts = [client.chat.completions.create(**options, seed=seed).choices[0].message.content for seed in (5, 5, 6)]
    assert texts[0] == texts[1] != texts[2]


def test_logprobs_are_sorted_belong_to_the_text_and_name_the_drawn_token(client):
    found = client.chat.completions.create(
        model="strata-tiny", messages=CHAT, temperature=0, max_tokens=20, logprobs=True, top_logprobs=5
    ).choices[0]
    tokens = found.logprobs.content
    assert b"".join(bytes(each.bytes) for each in tokens).decode() == found.message.content
    for each in tokens:
        top = [other.logprob for other in each.top_logprobs]
        assert top == sorted(top, reverse=True)
        assert len(top) == 5
        assert each.token == each.top_logprobs[0].token
        assert each.logprob == top[0] <= 0
    old = client.completions.create(model="strata-tiny", prompt=PROMPT, temperature=0, max_tokens=20, logprobs=3)
    assert "".join(old.choices[0].logprobs.tokens) == old.choices[0].text
    assert old.choices[0].logprobs.text_offset[0] == 0


def test_errors_are_the_clients_own(client, server):
    create = client.chat.completions.create
    with pytest.raises(openai.NotFoundError, match="'strata-tiny' is"):
        create(model="gpt-9", messages=CHAT)
    with pytest.raises(openai.BadRequestError, match="temperature") as caught:
        create(model="strata-tiny", messages=CHAT, temperature=1000)
    assert (caught.value.param, caught.value.code) == ("temperature", "invalid_value")
    with pytest.raises(openai.BadRequestError, match="more than the context of 512"):
        client.completions.create(model="strata-tiny", prompt=[5] * 513)
    with pytest.raises(openai.BadRequestError, match="tools"):
        create(model="strata-tiny", messages=CHAT, tools=[{"type": "function", "function": {"name": "f"}}])
    with pytest.raises(openai.AuthenticationError, match="wrong"):
        openai.OpenAI(base_url=server.url + "/v1", api_key="other").models.list()


def test_a_client_that_leaves_frees_its_slot_for_the_next(client, server):
    headers = {"authorization": "Bearer sesame"}

    def free():
        status = httpx2.get(server.url + "/status", headers=headers).json()
        return sum(slot["state"] == "free" for slot in status["slots"])

    streams = [
        client.chat.completions.create(
            model="strata-tiny", messages=CHAT, stream=True, max_tokens=400, extra_body={"ignore_eos": True}
        )
        for _ in range(4)
    ]
    for each in streams:
        next(iter(each))
    until(lambda: free() == 0)
    for each in streams:
        each.close()
    until(lambda: free() == 4, 5.0)


def test_the_monitor_counts_what_was_done(client, server):
    headers = {"authorization": "Bearer sesame"}
    before = httpx2.get(server.url + "/status", headers=headers).json()
    used = client.completions.create(model="strata-tiny", prompt=PROMPT, max_tokens=10, temperature=0).usage
    after = httpx2.get(server.url + "/status", headers=headers).json()
    added = {name: after["totals"][name] - before["totals"][name] for name in after["totals"]}
    assert (added["requests"], added["finished"], added["failed"]) == (1, 1, 0)
    assert added["generated_tokens"] == used.completion_tokens
    assert added["windows"] > 0
    assert after["phases"]["experts"] > 0
    metrics = httpx2.get(server.url + "/metrics", headers=headers).text
    assert re.search(rf"^strata_requests_total {after['totals']['requests']}\.0$", metrics, re.MULTILINE)
