"""What a server can be told, checked."""

from __future__ import annotations

from dataclasses import dataclass

from strata_runtime.errors import UserError
from strata_runtime.serve.hosts import same_name
from strata_runtime.sizes import size

LARGEST_BODY = 1 << 30


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """How a server answers. Raises `UserError` for values that cannot hold.

    model: the name that requests call the model by. keys: any one of them opens the API; none, and it is open.
    origins: websites whose scripts may use the API; `*` is all. hosts: names that the server may be called by, as
    `same_name` writes them; none, and any is taken. body_bytes: largest body of a request. read_s: seconds in which a
    request's head must be there, and as many for its body; 0: no limit. answer_s: seconds that an answer may take in
    all; 0: no limit. drain_s: seconds that running answers get when the server is told to stop.
    """

    model: str
    keys: frozenset[str] = frozenset()
    origins: tuple[str, ...] = ()
    hosts: frozenset[str] = frozenset()
    body_bytes: int = 8 << 20
    read_s: float = 30.0
    answer_s: float = 3600.0
    drain_s: float = 30.0

    def __post_init__(self) -> None:
        if not self.model or not self.model.isprintable():
            raise UserError(f"the model's name must be printable text, not {self.model!r:.60}: give it a --model-name")
        for key in self.keys:
            if not key.isascii() or not key.isprintable() or " " in key or not key:
                raise UserError("an API key must be printable ASCII without spaces")
        for origin in self.origins:
            if origin != "*" and not origin.startswith(("http://", "https://")):
                raise UserError(f"--cors-origin {origin!r:.60}: give * or an origin such as http://localhost:3000")
        for host in self.hosts:
            if same_name(host) != host:
                raise UserError(f"--allowed-host {host!r:.60}: give a name or an address, without port or *")
        if not 1 <= self.body_bytes <= LARGEST_BODY:
            raise UserError(f"the largest body must have from 1 byte to {size(LARGEST_BODY)}")
        for name, value in (("--read-timeout", self.read_s), ("--timeout", self.answer_s), ("--drain", self.drain_s)):
            if not 0 <= value < float("inf"):
                raise UserError(f"{name}: give seconds of 0 or more, not {value:g}")
