"""Errors that a user can mend."""

from __future__ import annotations


class UserError(Exception):
    """Something the user can mend: the message says what, where, and how. Command lines print it and exit with 2."""


class NotFiniteError(UserError):
    """The network's output at a position is not finite."""

    def __init__(self, position: int) -> None:
        super().__init__(
            f"the network's output at position {position} is not finite: the checkpoint's weights are damaged, or they "
            "overflow in the chosen engine.expert_format"
        )


class StallError(UserError):
    """One half of a window waited for the other in vain: the request is over, and the next one works again."""
