"""Chat pairs: the first paragraph of a docstring as the request, the function it describes as the answer."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterable, Iterator

ChatPair = tuple[str, str]

MIN_REQUEST, MAX_REQUEST = 25, 180
MIN_ANSWER, MAX_ANSWER = 60, 900


def chat_pairs(texts: Iterable[str]) -> list[ChatPair]:
    """Return (request, answer) pairs of all texts; a request that comes twice is kept once."""
    pairs: dict[str, str] = {}
    for text in texts:
        for request, answer in _pairs_of(text):
            pairs.setdefault(request, answer)
    return list(pairs.items())


def render(pair: ChatPair) -> str:
    """Return one pair as the training text of a finished conversation."""
    request, answer = pair
    return f"<|user|>\n{request}<|assistant|>\n{answer}<|endoftext|>"


def _pairs_of(text: str) -> Iterator[ChatPair]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            pair = _pair_of(node)
            if pair is not None:
                yield pair


def _pair_of(function: ast.FunctionDef) -> ChatPair | None:
    docstring = ast.get_docstring(function)
    if not docstring:
        return None
    request = re.sub(r"\s+", " ", docstring.strip().split("\n\n")[0]).strip()
    function.body = [statement for statement in function.body if not _is_constant(statement)]
    function.decorator_list = []
    if not MIN_REQUEST <= len(request) <= MAX_REQUEST or not function.body:
        return None
    try:
        answer = ast.unparse(function)
    except (ValueError, RecursionError):
        return None
    return (request, answer) if MIN_ANSWER <= len(answer) <= MAX_ANSWER else None


def _is_constant(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
