"""Which model a checkpoint holds, told from a small part of it."""

from __future__ import annotations

import hashlib
import json

from strata_runtime.checkpoint.source import Checkpoint

_SAMPLES_AT_MOST = 256
_SAMPLE_BYTES = 256


def identity(checkpoint: Checkpoint) -> str:
    """Return 32 hex digits that two checkpoints share when they hold the same model in the same form.

    Made of the family, all values of its config, the name, format and shape of every tensor, and bytes from the middle
    of up to 256 tensors: reading all weights would take as long as loading them. Weights that were trained on or
    re-encoded differ there; an edit of single numbers may not.
    """
    config, tensors = checkpoint.config, sorted(checkpoint.tensors.found.items())
    shapes = [(name, found.type, list(found.shape)) for name, found in tensors]
    digest = hashlib.sha256(json.dumps([config.family.name, sorted(config.values.items()), shapes]).encode())
    step = -(-len(tensors) // _SAMPLES_AT_MOST)
    for _, found in tensors[:: step or 1]:
        middle = len(found.data) // 2
        digest.update(found.data[middle : middle + _SAMPLE_BYTES])
    return digest.hexdigest()[:32]
