"""What is measured: every combination of a kind of pass, its tokens, the positions before them, and threads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from strata_runtime.errors import UserError

Kind = Literal["prompt", "decode", "window"]


@dataclass(frozen=True, slots=True)
class Case:
    """One line of the table.

    kind: `prompt` reads `tokens` tokens, `decode` reads them one after the other, `window` reads them in one pass and
    wants logits for each. context: positions that are filled before.
    """

    kind: Kind
    tokens: int
    context: int
    threads: int

    @property
    def end(self) -> int:
        """Positions that the cache must hold."""
        return self.context + self.tokens

    @property
    def tokens_per_unit(self) -> int:
        """Tokens that the case's time is for: those of a prompt or a window, or one of a decode."""
        return 1 if self.kind == "decode" else self.tokens

    @property
    def one_token(self) -> Case:
        """The window of one token that this window is compared with."""
        return Case("window", 1, self.context, self.threads)


@dataclass(frozen=True, slots=True)
class Plan:
    """All cases in the order of the table, and how often each is measured after one round that does not count."""

    cases: tuple[Case, ...]
    rounds: int
    seed: int

    @property
    def threads(self) -> tuple[int, ...]:
        """Every number of threads, in the order that was asked for."""
        return tuple(dict.fromkeys(case.threads for case in self.cases))

    @property
    def positions(self) -> int:
        """Positions that the cache must hold."""
        return max(case.end for case in self.cases)


def make_plan(
    *,
    prompt: Sequence[int],
    decode: Sequence[int],
    window: Sequence[int],
    contexts: Sequence[int],
    threads: Sequence[int],
    rounds: int,
    seed: int,
) -> Plan:
    """Combine what was asked for. Raises `UserError` when that is nothing."""
    kinds: tuple[tuple[Kind, Sequence[int]], ...] = (("prompt", prompt), ("decode", decode), ("window", window))
    cases = tuple(
        Case(kind, tokens, context, workers)
        for kind, sizes in kinds
        for context in contexts
        for tokens in sizes
        for workers in threads
    )
    if not cases:
        raise UserError("nothing is left to measure: --prompt, --decode and --window are all none")
    return Plan(cases, rounds, seed)


def check_fits(plan: Plan, most: int, says: str) -> None:
    """Raise `UserError` unless every case fits into `most` positions; `says` names what sets them."""
    worst = max(plan.cases, key=lambda case: case.end)
    if worst.end > most:
        before = f" behind a context of {worst.context}" if worst.context else ""
        raise UserError(
            f"--{worst.kind} {worst.tokens}{before} needs {worst.end} positions, more than {says} of {most}: "
            f"lower --{worst.kind}{' or --context' if worst.context else ''}"
        )
