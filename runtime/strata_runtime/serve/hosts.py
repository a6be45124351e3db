"""Names that a server is called by."""

from __future__ import annotations

import re
from ipaddress import AddressValueError, IPv6Address

_HOST = re.compile(r"(?:\[(?P<address>[^\]]*:[^\]]*)\]|(?P<name>[^\s:/?#@*\[\]\\]+))(?::[0-9]*)?")


def name_in(host: str) -> str | None:
    """Return the name of a Host header, `name:port` or `[address]:port`, as `same_name` does; None where it is none."""
    found = _HOST.fullmatch(host)
    return found and same_name(found["address"] or found["name"])


def same_name(given: str) -> str | None:
    """Return the one way to write a name or an address without port; None where it is neither."""
    if ":" in given:
        try:
            return str(IPv6Address(given))
        except AddressValueError:
            return None
    name = given.lower().removesuffix(".")
    return name if name and name.isascii() and name.isprintable() and _HOST.fullmatch(name) else None
