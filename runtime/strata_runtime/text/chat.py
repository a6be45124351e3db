"""Chat templates: from messages to the text that a model was trained on."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from strata_runtime.errors import UserError
from strata_runtime.text.files import read_text
from strata_runtime.text.protect import Protection, texts
from strata_runtime.text.tokenizer import CONFIG_FILE, Tokenizer, token_text

if TYPE_CHECKING:
    from jinja2 import Template
    from jinja2.sandbox import ImmutableSandboxedEnvironment

TEMPLATE_FILE = "chat_template.jinja"

Message = Mapping[str, Any]
"""One message: `role` (text) and `content` (text, or a list of parts), and whatever else the template reads."""

Tool = Mapping[str, Any]
"""What a model may call: a JSON object as its chat template reads it."""


class _TemplateRefused(Exception):
    """Raised by a template itself, through `raise_exception`."""


def _raise_exception(message: object) -> NoReturn:
    raise _TemplateRefused(str(message))


def _tojson(value: object, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _strftime_now(form: str) -> str:
    return datetime.now().astimezone().strftime(form)


def _environment() -> ImmutableSandboxedEnvironment:
    try:
        from jinja2.ext import loopcontrols
        from jinja2.sandbox import ImmutableSandboxedEnvironment
    except ImportError as problem:
        raise UserError("chat templates need the package jinja2: pip install jinja2") from problem
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    environment.filters["tojson"] = _tojson
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = _strftime_now
    return environment


def check_messages(messages: Sequence[Message]) -> None:
    """Raise `UserError` unless `messages` is a conversation: at least one message, each with a role."""
    if not messages:
        raise UserError("the conversation is empty: give at least one message")
    for index, message in enumerate(messages):
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            raise UserError(f"message {index} must be a mapping with a text 'role', not {message!r:.60}")
        if not isinstance(message.get("content"), str | list | None):
            raise UserError(f"message {index}: 'content' must be text or a list of parts")


@dataclass(frozen=True, slots=True)
class ChatTemplate:
    """A compiled template. `variables`: what it may read besides the messages. `where`: its file, for errors."""

    template: Template
    source: str
    variables: Mapping[str, object]
    where: str

    @classmethod
    def compile(cls, source: str, variables: Mapping[str, object], where: str) -> ChatTemplate:
        """Compile a template's source. Raises `UserError` when it is not valid jinja2, or jinja2 is missing."""
        environment = _environment()
        from jinja2 import TemplateError

        try:
            return cls(environment.from_string(source), source, variables, where)
        except (TemplateError, RecursionError) as problem:
            raise UserError(f"{where}: the chat template is broken: {problem}") from problem

    @classmethod
    def load(cls, folder: Path, tokenizer: Tokenizer) -> ChatTemplate:
        """Read chat_template.jinja or the one in tokenizer_config.json. Raises `UserError` when there is none."""
        named = {name: token_text(value) for name, value in tokenizer.config.items() if name.endswith("_token")}
        variables = {name: text for name, text in named.items() if text is not None}
        source, path = template_source(folder, tokenizer)
        if source is None:
            raise UserError(
                f"{folder}: the model has no chat template (neither {TEMPLATE_FILE} nor 'chat_template' in "
                f"{CONFIG_FILE}); give it a plain prompt instead"
            )
        return cls.compile(source, variables, str(path))

    @property
    def reads_tools(self) -> bool:
        """Whether the template has a place for tools."""
        from jinja2.meta import find_undeclared_variables

        return "tools" in find_undeclared_variables(_environment().parse(self.source))

    def render(
        self,
        messages: Sequence[Message],
        tokenizer: Tokenizer,
        *,
        tools: Sequence[Tool] = (),
        add_generation_prompt: bool = True,
    ) -> list[int]:
        """Return token ids of a conversation; with `add_generation_prompt` they end where the answer begins.

        Raises `UserError` when the messages are malformed, the template fails on them, or has no place for tools.
        """
        check_messages(messages)
        if tools and not self.reads_tools:
            raise UserError("the model's chat template has no place for tools: leave them out")
        plain, offered = [dict(message) for message in messages], [dict(tool) for tool in tools]
        protection = Protection(tokenizer.control_tokens, (self.source, *texts(plain), *texts(offered)))
        try:
            rendered = self.template.render(
                **self.variables,
                messages=protection.hide(plain),
                add_generation_prompt=add_generation_prompt,
                tools=protection.hide(offered) or None,
                documents=None,
            )
        except _TemplateRefused as problem:
            raise UserError(f"the model's chat template refuses these messages: {problem}") from problem
        except Exception as problem:  # a template is a program: it can fail with any type
            raise UserError(f"{self.where}: the chat template failed: {type(problem).__name__}: {problem}") from problem
        return tokenizer.encode_chat(rendered, protection)


def template_source(folder: Path, tokenizer: Tokenizer) -> tuple[str | None, Path]:
    """Return (source, file) of a folder's template: of several the default one, None when there is none.

    Raises `UserError` when it is no text.
    """
    path = folder / TEMPLATE_FILE
    if path.exists():
        return read_text(path), path
    value, path = tokenizer.config.get("chat_template"), folder / CONFIG_FILE
    if isinstance(value, list):
        named = {item.get("name"): item.get("template") for item in value if isinstance(item, dict)}
        value = named.get("default")
    if not isinstance(value, str | None):
        raise UserError(f"{path}: 'chat_template' must be text, not {type(value).__name__}")
    return value, path
