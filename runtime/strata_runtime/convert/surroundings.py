"""What a tokenizer.json puts around every text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from strata_runtime.errors import UserError


@dataclass(frozen=True, slots=True)
class Surroundings:
    """`bos`: the token that begins texts. `adds_bos`: whether every text gets it."""

    bos: int | None
    adds_bos: bool


def _is(value: object, key: str) -> bool:
    return isinstance(value, dict) and key in value


def _template(raw: object) -> Mapping[str, object] | None:
    """Find the one step that adds tokens among those after the model; the others change no ids."""
    if not isinstance(raw, dict):
        return None
    if raw.get("type") == "Sequence":
        listed = raw.get("processors")
        steps = [found for step in (listed if isinstance(listed, list) else ()) if (found := _template(step))]
        return steps[0] if len(steps) == 1 else {"single": None} if steps else None
    return None if raw.get("type") == "ByteLevel" else raw


def _before(template: Mapping[str, object]) -> list[int] | None:
    """Ids that a template puts before a text; None for one that does anything else."""
    single, special = template.get("single"), template.get("special_tokens")
    if template.get("type") != "TemplateProcessing" or not isinstance(single, list) or not isinstance(special, dict):
        return None
    if not single or not _is(single[-1], "Sequence") or not all(_is(item, "SpecialToken") for item in single[:-1]):
        return None
    named = (special.get(item["SpecialToken"].get("id")) for item in single[:-1])
    return [token for item in named if isinstance(item, dict) for token in item.get("ids", ())]


def read_surroundings(tokenizer: Mapping[str, object], bos: int | None, where: str) -> Surroundings:
    """Read the `post_processor`; `bos` is the token that the model's configs say begins texts.

    Raises `UserError` for one that adds anything but that token, before a text: GGUF files cannot say more.
    """
    template = _template(tokenizer.get("post_processor"))
    before = [] if template is None else _before(template)
    if before == []:
        return Surroundings(bos, adds_bos=False)
    if before is None or len(before) != 1 or bos not in {None, before[0]}:
        raise UserError(f"{where}: its post_processor adds more than one token that begins texts, which GGUF has not")
    return Surroundings(before[0], adds_bos=True)
