"""The page in a real browser: chat with streaming, stop, regenerate, settings, monitor; and how it looks."""

import re
import shutil
import threading
from pathlib import Path

import pytest
from playwright.sync_api import expect, sync_playwright

from support.serving import FakeBatch, running, saying, until

SHOTS = Path(__file__).resolve().parents[2] / "build" / "screenshots"
CHROMIUM = shutil.which("chromium")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
CODE = """\
def read_lines(path: str) -> list[str]:
    # <b>not bold</b> <img src=x onerror="document.title='broken'">
    with open(path, encoding="utf-8") as file:
        return [line.rstrip("\\n") for line in file]
"""
WAIT_MS = 20_000

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium here (Debian, Ubuntu: apt-get install chromium)")


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def visit(browser):
    """Open the page of a server; anything that its script or its policy complains of fails the test."""
    opened = []
    complaints = []

    def start(server, **options):
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 860}, **options})
        context.set_default_timeout(WAIT_MS)
        opened.append(context)
        page = context.new_page()
        page.on("pageerror", lambda problem: complaints.append(str(problem)))
        page.on("console", lambda line: complaints.append(line.text) if line.type == "error" else None)
        page.goto(server.url)
        return page

    yield start
    for context in opened:
        context.close()
    assert [each for each in complaints if "401" not in each] == []


def ask(page, text):
    page.get_by_label("Message", exact=True).fill(text)
    page.get_by_label("Message", exact=True).press("Enter")


def answers(page):
    return page.locator("article.assistant .text")


def test_a_conversation_streams_and_its_text_is_text_alone(visit, server, engine, batch):
    go_on = threading.Event()

    def script(_):
        ids = engine.tokenizer.encode(CODE)
        yield from ids[:30]
        yield go_on
        yield from ids[30:]

    batch.script = script
    batch.phases = {"mixer": 2.0, "router": 0.7, "experts": 5.1, "waits": 0.4, "combine": 0.3, "head": 1.1}
    batch.expert_hits = (820, 1000)
    page = visit(server)
    ask(page, "Read the lines of a file. <b>&amp;</b>")
    expect(answers(page)).to_have_text(re.compile("^def read_lines"))
    expect(page.locator("article.assistant")).to_have_attribute("aria-busy", "true")
    assert "return" not in answers(page).inner_text()
    go_on.set()
    expect(answers(page)).to_have_text(CODE, use_inner_text=False)
    expect(page.locator("article.user .text")).to_have_text("Read the lines of a file. <b>&amp;</b>")
    expect(page.locator("article.assistant .note")).to_have_text(
        re.compile(r"^\d+ tokens in [\d.]+ s, the first after")
    )
    assert page.title() == "fake · strata"
    assert page.locator("#log b, #log img").count() == 0

    ask(page, "Once more")
    expect(answers(page)).to_have_count(2)
    expect(page.locator("article[aria-busy]")).to_have_count(0)
    first, second = batch.submitted
    talked = [("user", "Read the lines of a file. <b>&amp;</b>"), ("assistant", CODE), ("user", "Once more")]
    assert second.ids == engine.encode([{"role": role, "content": text} for role, text in talked])
    assert first.max_tokens == engine.context
    SHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SHOTS / "page.png")


def test_stop_ends_an_answer_and_its_request(visit, server, engine, batch):
    batch.script = saying(engine, "again " * 1000, pause=0.02)
    page = visit(server)
    ask(page, "Go on")
    expect(answers(page)).to_have_text(re.compile("^again again"))
    page.get_by_role("button", name="Stop").click()
    expect(page.locator(".note")).to_have_text(["", "stopped"])
    until(batch.tickets[0].over.is_set, 2.0)
    expect(page.get_by_role("button", name="Send")).to_be_visible()


def test_regenerate_asks_the_same_again_in_place_of_the_answer(visit, server, engine, batch):
    page = visit(server)
    expect(page.get_by_role("button", name="Regenerate")).to_be_disabled()
    ask(page, "Hello")
    expect(answers(page)).to_have_text("Grüße, 世界 🙂!")
    batch.script = saying(engine, "Another one")
    page.get_by_role("button", name="Regenerate").click()
    expect(answers(page)).to_have_text("Another one")
    assert batch.submitted[0].ids == batch.submitted[1].ids
    page.get_by_role("button", name="New conversation").click()
    expect(page.locator("article")).to_have_count(0)


def test_settings_reach_the_request_and_are_kept(visit, server, batch):
    page = visit(server)
    page.get_by_text("Settings").click()
    values = {"Temperature": "0.5", "Top p": "0.9", "Top k": "5", "Min p": "0.1", "Repetition penalty": "1.1"}
    for label, value in {**values, "Most tokens": "7", "Seed": "3"}.items():
        page.get_by_label(label).fill(value)
    ask(page, "Hello")
    expect(page.locator(".note").last).to_have_text(re.compile("cut off at the most tokens"))
    (asked,) = batch.submitted
    sampling = asked.sampling
    assert (sampling.temperature, sampling.top_p, sampling.top_k) == (0.5, 0.9, 5)
    assert (sampling.min_p, sampling.repetition_penalty, sampling.seed, asked.max_tokens) == (0.1, 1.1, 3, 7)
    page.reload()
    page.get_by_text("Settings").click()
    assert page.get_by_label("Temperature").input_value() == "0.5"


def test_a_request_that_is_refused_says_why(visit, server, batch):
    page = visit(server)
    page.get_by_text("Settings").click()
    page.get_by_label("Temperature").fill("1000")
    # The browser itself refuses it: the field says what it takes.
    ask(page, "Hello")
    assert page.evaluate("document.querySelector('[name=temperature]').validity.rangeOverflow")
    assert batch.submitted == []


def test_the_monitor_shows_the_server_as_it_is(visit, server, batch):
    batch.phases, batch.expert_hits = {"mixer": 1.0, "experts": 3.0}, (3, 4)
    page = visit(server)
    expect(page.locator("#speed")).to_have_text("123.5")
    expect(page.locator("#slots li")).to_have_text([f"{at} free" for at in range(1, 5)])
    expect(page.locator("#queued")).to_have_text("2")
    expect(page.locator("#hits")).to_have_text("75.0%")
    expect(page.locator("#acceptance")).to_have_text("no drafts")
    expect(page.locator("#phases li")).to_have_text(["mixer25.0%", "experts75.0%"])
    expect(page.get_by_role("status")).to_have_text("ready")


def test_it_works_with_a_key_and_says_that_it_needs_one(visit, engine):
    with running(engine, FakeBatch(engine, saying(engine, "Hi")), model="fake", keys=frozenset({"sesame"})) as server:
        page = visit(server)
        expect(page.get_by_role("status")).to_have_text("needs an API key")
        page.get_by_label("API key").fill("sesame")
        expect(page.get_by_role("status")).to_have_text("ready")
        ask(page, "Hello")
        expect(answers(page)).to_have_text("Hi")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_phone_in_light_and_dark(visit, server, scheme):
    page = visit(server, viewport={"width": 390, "height": 844}, color_scheme=scheme)
    ask(page, "Hello")
    expect(answers(page)).to_have_text("Grüße, 世界 🙂!")
    expect(page.locator("aside")).to_be_hidden()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.screenshot(path=SHOTS / f"phone-{scheme}.png")
    page.get_by_role("button", name="Monitor").click()
    expect(page.locator("#speed")).to_be_visible()
    expect(page.get_by_label("Message", exact=True)).to_be_hidden()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_everything_can_be_reached_by_keyboard_and_has_a_name(visit, server):
    page = visit(server)
    page.get_by_text("Settings").click()
    nameless = page.evaluate(
        """() => [...document.querySelectorAll("button, input, textarea, summary")].filter((each) =>
             !(each.textContent.trim() || each.labels?.length || each.getAttribute("aria-label")))
           .map((each) => each.outerHTML)"""
    )
    assert nameless == []
    page.get_by_label("Message", exact=True).focus()
    page.keyboard.type("Hello")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "send"
    page.keyboard.press("Enter")
    expect(answers(page)).to_have_text("Grüße, 世界 🙂!")
