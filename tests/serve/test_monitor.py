"""What is seen of a running server: page, health, status, metrics, log."""

import io
import json
import re

from prometheus_client.parser import text_string_to_metric_families

from strata_runtime.serve.journal import Journal
from support.serving import CHAT, TEXT, hello


def test_status_tells_all_that_the_page_shows(client, batch):
    batch.phases, batch.expert_hits = {"experts": 1.5, "mixer": 0.5}, (3, 4)
    found = client.get("/status").json()
    assert (found["model"], found["context"], found["drafter"]) == ("fake", 400, "none")
    assert found["slots"] == [{"state": "free", "request": None, "tokens": 0, "of": 0}] * 4
    assert found["queued"] == 2
    assert found["tokens_per_second"] == 123.5
    assert found["phases"] == {"experts": 1.5, "mixer": 0.5}
    assert found["expert_hits"] == [3, 4]
    assert found["totals"]["windows"] == 7


def samples(client):
    text = client.get("/metrics")
    assert text.headers["content-type"].startswith("text/plain; version=0.0.4")
    families = text_string_to_metric_families(text.text)
    return {(each.name, *each.labels.values()): each.value for family in families for each in family.samples}


def test_metrics_are_in_prometheus_format_and_count(client, batch):
    batch.phases, batch.expert_hits = {"experts": 1.5}, (3, 4)
    before = samples(client)
    client.post(CHAT, json=hello())
    client.post(TEXT, json={})
    found = samples(client)
    assert found["strata_slots", "free"] == 4
    assert found["strata_queued_requests",] == 2
    assert found["strata_tokens_per_second",] == 123.5
    assert found["strata_draft_acceptance",] == 0.75
    assert found["strata_window_seconds_total", "experts"] == 1.5
    assert found["strata_experts_total", "slot"] == 3
    assert found["strata_experts_total", "elsewhere"] == 1
    assert found["strata_requests_total",] == 1
    counted = {
        ("strata_http_responses_total", CHAT, "200"): 1,
        ("strata_http_responses_total", TEXT, "400"): 1,
        ("strata_first_token_seconds_count",): 1,
        ("strata_request_seconds_count",): 1,
    }
    assert {key: found[key] - before.get(key, 0) for key in counted} == counted


def test_paths_that_clients_invent_do_not_become_metrics(client):
    client.get("/invented")
    assert not any("/invented" in key for key in samples(client))


def test_a_request_is_one_line_with_all_that_matters(client, server):
    name = client.post(TEXT, json={"prompt": "abc", "max_tokens": 50}).headers["x-request-id"]
    line = server.line_of(name)
    assert {"time", "first_token_s", "seconds"} <= set(line)
    expected = {
        "event": "request",
        "method": "POST",
        "path": TEXT,
        "status": 200,
        "prompt_tokens": 3,
        "cached_tokens": 1,
        "tokens": 22,
        "queue_s": 0.25,
        "tokens_per_second": 11.0,
        "finish": "stop",
    }
    assert {key: line[key] for key in expected} == expected


def test_what_looks_on_does_not_fill_the_log(client, server):
    before = len(server.lines)
    for path in ("/", "/health", "/status", "/metrics"):
        client.get(path)
    assert len(server.lines) == before


def test_lines_are_key_value_or_json():
    out = io.StringIO()
    Journal(as_json=False, stream=out).say("request", path="/a b", text='"=\n', count=3, seconds=0.123456, none=None)
    assert re.fullmatch(r'time=\S+Z event=request path="/a b" text="\\"=\\n" count=3 seconds=0.1235\n', out.getvalue())
    out = io.StringIO()
    Journal(as_json=True, stream=out).say("request", path="/ä", none=None)
    assert json.loads(out.getvalue())["path"] == "/ä"


def test_a_log_that_nobody_takes_ends_nothing():
    class Closed(io.StringIO):
        def write(self, _):
            raise BrokenPipeError

    Journal(as_json=True, stream=Closed()).say("request")


def test_the_page_needs_nothing_from_elsewhere_and_runs_its_own_script_alone(client):
    response = client.get("/")
    assert response.headers["content-type"].startswith("text/html")
    policy = response.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy
    assert not re.search(r"(src|href)=.?https?:|url\(|@import", response.text)
    assert not re.search(r"innerHTML|insertAdjacentHTML|document\.write", response.text)


def test_the_description_names_every_error_and_none_of_the_frameworks_shape(client):
    found = client.get("/openapi.json").json()
    answers = found["paths"][CHAT]["post"]["responses"]
    assert {"200", "400", "401", "403", "404", "408", "413", "429", "500", "503", "504"} == set(answers)
    assert "HTTPValidationError" not in found["components"]["schemas"]
    assert set(found["paths"]) == {CHAT, TEXT, "/v1/models", "/v1/models/{model}", "/health", "/status", "/metrics"}
