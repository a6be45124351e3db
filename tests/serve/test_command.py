"""The command line of `strata serve`: what it takes, and what it says of what it does not."""

import socket

import httpx2
import pytest
from click.testing import CliRunner

from strata_runtime.cli.main import group
from strata_runtime.errors import UserError
from strata_runtime.serve.server import listen, reserve
from support.fake_engine import FakeModel, hashed, patch_command_line
from support.serving import CHAT, FakeBatch, chunks, hello, running, saying
from support.text_models import write_folder


@pytest.fixture
def strata(monkeypatch, tmp_path):
    """Run the command up to the point where it would serve; what it would serve with is in `asked`."""
    patch_command_line(monkeypatch, FakeModel(300, hashed(300)))
    asked = []
    monkeypatch.setattr("strata_runtime.cli.serve._serve", lambda *args, **_: asked.append(args))
    folder = write_folder(tmp_path / "small")

    def run(*args):
        return CliRunner().invoke(group, ["serve", "--model", str(folder), "--port", "0", *map(str, args)])

    run.asked = asked
    return run


def options(strata, *args):
    result = strata(*args)
    assert result.exit_code == 0, result.output
    (_, found, _, _) = strata.asked[-1]
    return found


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--host", "no.such.host.invalid"], "--host no.such.host.invalid: "),
        (["--host", "192.0.2.1"], "cannot listen on 192.0.2.1"),
        (["--port", "70000"], "70000 is not in the range"),
        (["--batch", "0"], "--batch: batch.slots: '0' must be at least 1"),
        (["--batch", "2", "--batch-slots", "2"], "give one of them"),
        (["--api-key", "two words"], "an API key must be"),
        (["--api-key-file", "/no/such/file"], "--api-key-file /no/such/file: cannot be read"),
        (["--api-key-file", "/dev/null"], "holds no key"),
        (["--allowed-host", "models.example:8000"], "'models.example:8000': give a name or an address, without port"),
        (["--allowed-host", "*"], "'*': give a name or an address"),
        (["--allowed-host", "http://models.example"], "give a name or an address"),
        (["--allowed-host", ""], "'': give a name or an address"),
        (["--cors-origin", "example.com"], "--cors-origin 'example.com': give * or an origin"),
        (["--max-body", "0"], "--max-body: give MiB above 0"),
        (["--max-body", "5000"], "the largest body"),
        (["--drain", "-1"], "--drain: give seconds of 0 or more"),
        (["--timeout", "nan"], "--timeout: give seconds of 0 or more"),
        (["--model-name", "\n"], "the model's name must be"),
        (["--draft", "oracle"], "--draft: "),
        (["--wrong"], "No such option"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_options_that_do_not_hold_are_one_clear_message(strata, args, message):
    result = strata(*args)
    assert result.exit_code == 2
    assert message in result.stderr
    assert strata.asked == []


def test_a_port_that_is_taken_is_one_clear_line_before_the_model_is_read(strata):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = strata("--port", port)
    assert result.exit_code == 2
    assert result.stderr == (
        f"Error: cannot listen on 127.0.0.1, port {port}: Address already in use; choose another --port or --host\n"
    )


def test_a_port_that_is_taken_while_the_model_is_read_is_one_too():
    with reserve("127.0.0.1", 0) as mine, socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(mine.getsockname())
        other.listen()
        with pytest.raises(UserError, match="Address already in use"):
            listen(mine)


def test_connections_are_refused_until_the_model_is_there():
    with reserve("127.0.0.1", 0) as opened, pytest.raises(ConnectionRefusedError):
        socket.create_connection(opened.getsockname())


def test_a_model_that_is_not_there_is_one_clear_line(strata, tmp_path):
    result = CliRunner().invoke(group, ["serve", "--model", str(tmp_path / "none"), "--port", "0"])
    assert result.exit_code == 2
    assert result.stderr.startswith(f"Error: {tmp_path}/none")
    assert result.stderr.count("\n") == 1


def test_a_model_without_text_is_refused(monkeypatch, engine):
    from strata_runtime.cli.serve import _serve

    with monkeypatch.context() as patch, reserve("127.0.0.1", 0) as opened:
        patch.setattr(engine, "tokenizer", None)
        with pytest.raises(UserError, match="has no tokenizer"):
            _serve(engine, None, opened, None, as_json=False)


def test_missing_packages_are_named_with_the_command_that_installs_them(strata, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "uvicorn", None)
    result = strata()
    assert result.exit_code == 2
    assert "needs the package uvicorn" in result.stderr
    assert "pip install 'strata-gen[serve]'" in result.stderr
    monkeypatch.setattr("strata_runtime.discovery.checkout", lambda: None)
    assert "pip install 'strata-runtime[serve]'" in strata().stderr


def test_the_model_is_called_by_its_files_name_unless_told(strata):
    assert options(strata).model == "small"
    assert options(strata, "--model-name", "maker/name").model == "maker/name"


def test_keys_come_from_options_and_from_a_file(strata, tmp_path):
    file = tmp_path / "keys"
    file.write_text("first\n\nsecond\n")
    assert options(strata).keys == frozenset()
    found = options(strata, "--api-key-file", file, "--api-key", "third", "--api-key", "fourth")
    assert found.keys == {"first", "second", "third", "fourth"}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([], {"127.0.0.1", "localhost", "::1"}),
        (["--allowed-host", "Models.example"], {"127.0.0.1", "localhost", "::1", "models.example"}),
        (["--allowed-host", "models.example."], {"127.0.0.1", "localhost", "::1", "models.example"}),
        (["--allowed-host", "FE80:0::1"], {"127.0.0.1", "localhost", "::1", "fe80::1"}),
        (["--host", "0.0.0.0"], set()),
        (["--host", "0.0.0.0", "--allowed-host", "models.example"], {"models.example"}),
    ],
)
def test_a_server_for_this_machine_alone_goes_by_its_own_names(strata, given, expected):
    assert options(strata, *given).hosts == expected


def test_sizes_and_times(strata):
    given = ["--max-body", "0.5", "--read-timeout", "0", "--timeout", "1.5", "--drain", "2", "--cors-origin", "*"]
    found = options(strata, *given)
    assert (found.body_bytes, found.read_s, found.answer_s, found.drain_s) == (1 << 19, 0, 1.5, 2)
    assert found.origins == ("*",)


def test_slots_and_drafts_have_short_flags(strata):
    assert strata("--batch", "3", "--draft", "ngram", "--spec", "auto").exit_code == 0
    settings = strata.asked[-1][0].settings
    assert (settings.batch.slots, settings.window.draft, settings.window.width) == (3, "ngram", 0)


def test_ipv6(engine):
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("no IPv6 here")
    batch = FakeBatch(engine, saying(engine, "Hello"))
    with (
        running(engine, batch, host="::1", model="fake") as server,
        httpx2.stream("POST", server.url + CHAT, json=hello(stream=True)) as response,
    ):
        assert len(chunks(response)) > 3


def test_help_names_every_option_and_the_endpoints(strata):
    result = strata("--help")
    assert result.exit_code == 0
    for word in ("/v1", "/health", "/status", "/metrics", "--api-key-file", "--drain", "SIGTERM", "--batch-queue"):
        assert word in result.stdout
