"""The error that a command ends with when a user can mend what is wrong."""

from __future__ import annotations


class GeneratorError(Exception):
    """Something a user can mend; the command line prints it to stderr and exits with 2, without a traceback.

    `what` is wrong (one sentence without a full stop), `where` it is (a path, a target, a flag), and how to `mend` it.
    """

    def __init__(self, what: str, *, where: str = "", mend: str = "") -> None:
        self.what, self.where, self.mend = what, where, mend
        super().__init__(what)

    def render(self) -> str:
        """Return the lines to show: `error: what`, then `  at: where` and `  fix: mend` when they are given."""
        lines = [f"error: {self.what}"]
        lines += [f"  at: {self.where}"] if self.where else []
        lines += [f"  fix: {self.mend}"] if self.mend else []
        return "\n".join(lines)
