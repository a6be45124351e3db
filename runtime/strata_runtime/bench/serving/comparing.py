"""Texts of a load beside the same requests alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from strata_runtime.bench.serving.clients import GREEDY, Client
from strata_runtime.engine import Engine
from strata_runtime.errors import UserError
from strata_runtime.progress import Progress

if TYPE_CHECKING:
    from strata_runtime._settings import Settings


def wrong_texts(engine: Engine, sample: Sequence[Client], progress: Progress) -> int:
    """Count texts that are not what their request gives alone: all of it, or its begin where the client left.

    progress: called with (done, total).
    """
    wrong = 0
    for done, client in enumerate(sample):
        progress(done, len(sample))
        if client.finish is None:  # it failed, or was lost: counted there
            continue
        alone = engine.generate(client.ids, GREEDY, max_tokens=client.wanted, ignore_eos=True).run().token_ids
        is_whole = client.finish == "cancelled" or len(client.tokens) == len(alone)
        wrong += not (is_whole and tuple(client.tokens) == alone[: len(client.tokens)])
    progress(len(sample), len(sample))
    return wrong


def require_comparable(settings: Settings) -> None:
    """Raise `UserError` for knobs with which a text may differ from that of the same request alone."""
    what = "--scenario random compares texts with the same requests alone"
    if settings.batch.prefix == "on":
        raise UserError(f"{what}, which batch.prefix=on may change: use exact")
    piece, chunk = settings.piped.piece, settings.engine.prompt_chunk
    if 0 < piece < chunk:
        raise UserError(
            f"{what}: piped.piece={piece} must not be less than engine.prompt_chunk={chunk}, which changes them"
        )
