"""Requests made from the API's own description: whatever comes, no answer is a fault, and each is one that it names."""

import hypothesis
import pytest
import schemathesis
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from support.serving import CHAT, TEXT

CHECKS = [
    schemathesis.checks.not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
CASES = [
    *(
        (path, "POST", mode, status, 50)
        for path in (CHAT, TEXT)
        for mode, status in zip(GenerationMode, (200, 400), strict=True)
    ),
    *((path, "GET", GenerationMode.POSITIVE, 200, 5) for path in ("/v1/models", "/status", "/metrics", "/health")),
    ("/v1/models/{model}", "GET", GenerationMode.POSITIVE, 404, 10),
]


@pytest.fixture(scope="module")
def description(shared):
    return schemathesis.openapi.from_url(shared.url + "/openapi.json")


@pytest.mark.parametrize(("path", "method", "mode", "status", "count"), CASES, ids=str)
def test_answers_are_those_that_the_description_names(description, server, path, method, mode, status, count):
    seen = []

    @hypothesis.seed(1)
    @hypothesis.settings(
        max_examples=count, deadline=None, database=None, suppress_health_check=list(hypothesis.HealthCheck)
    )
    @hypothesis.given(case=description[path][method].as_strategy(generation_mode=mode))
    def ask(case):
        seen.append(case.call_and_validate(checks=CHECKS).status_code)

    ask()
    assert [line for line in server.lines if line["event"] == "fault"] == []
    assert status in seen
