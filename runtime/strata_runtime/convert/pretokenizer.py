"""From the parts of a tokenizer.json around its model to the name that GGUF files have for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from strata_runtime.errors import UserError
from strata_runtime.gguf.pretokenizers import PRE_TOKENIZERS, PreTokenizer

_BYTES = "ByteLevel"


def _steps(part: object, list_key: str) -> Iterator[Mapping[str, object]]:
    """Yield the steps of a part that may be null, one step, or a sequence of them."""
    if not isinstance(part, dict):
        return
    listed = part.get(list_key)
    if part.get("type") == "Sequence" and isinstance(listed, list):
        for step in listed:
            yield from _steps(step, list_key)
    else:
        yield part


def _pattern(step: Mapping[str, object]) -> str | None:
    """Return the pattern of a step that cuts text as GGUF files can say."""
    pattern = step.get("pattern")
    cuts = step.get("type") == "Split" and step.get("behavior") == "Isolated" and step.get("invert") is False
    found = pattern.get("Regex") if cuts and isinstance(pattern, dict) else None
    return found if isinstance(found, str) else None


def _splits(tokenizer: Mapping[str, object]) -> tuple[str, ...] | None:
    steps = list(_steps(tokenizer.get("pre_tokenizer"), "pretokenizers"))
    if not steps or steps[-1].get("type") != _BYTES or steps[-1].get("add_prefix_space") is not False:
        return None
    patterns = [pattern for step in steps[:-1] if (pattern := _pattern(step)) is not None]
    last = PRE_TOKENIZERS["gpt-2"].splits if steps[-1].get("use_regex", True) else ()
    return (*patterns, *last) if len(patterns) == len(steps) - 1 else None


def _composes(tokenizer: Mapping[str, object]) -> bool | None:
    kinds = [step.get("type") for step in _steps(tokenizer.get("normalizer"), "normalizers")]
    return True if kinds == ["NFC"] else None if kinds else False


def _says(tokenizer: Mapping[str, object], pre: PreTokenizer) -> bool:
    model = tokenizer.get("model")
    whole_words = isinstance(model, dict) and model.get("ignore_merges") is True
    return (pre.splits, pre.composes, pre.whole_words) == (_splits(tokenizer), _composes(tokenizer), whole_words)


def pre_tokenizer_name(tokenizer: Mapping[str, object], where: str) -> str:
    """Name the way in which a tokenizer.json cuts text before merging. Raises `UserError` when it has no name."""
    decoders = [step.get("type") for step in _steps(tokenizer.get("decoder"), "decoders")]
    name = next((name for name, pre in PRE_TOKENIZERS.items() if _says(tokenizer, pre)), None)
    if name is None or decoders != [_BYTES]:
        raise UserError(
            f"{where}: its pre_tokenizer, normalizer and decoder are none that GGUF files have a name for here; "
            f"known: {', '.join(PRE_TOKENIZERS)}"
        )
    return name
