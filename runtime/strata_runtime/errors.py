"""Errors that a user can mend."""

from __future__ import annotations


class UserError(Exception):
    """Something the user can mend: the message says what, where, and how. Command lines print it and exit with 2."""
