"""On which systems a module can be loaded, by the symbol versions that it asks for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from strata_gen.wheel.elf import SharedObject

SYSTEM_LIBRARIES = re.compile(r"(libc|libm|libdl|librt|libpthread|libgcc_s|libstdc\+\+|ld-linux-[a-z0-9-]+)\.so\.\d+")
"""What every system of a `manylinux` tag has."""

_OLDEST = 17
# The first glibc (2.N) whose distributions have the symbols of the GCC libraries, by the last number of the version
# (PEP 600 profiles, as auditwheel keeps them).
_GCC_LIBRARIES: Mapping[str, Mapping[tuple[int, ...], int]] = {
    "GLIBCXX": {
        (3, 4, 19): 17,
        (3, 4, 22): 24,
        (3, 4, 24): 27,
        (3, 4, 28): 31,
        (3, 4, 29): 34,
        (3, 4, 30): 35,
        (3, 4, 33): 39,
    },
    "CXXABI": {(1, 3, 7): 17, (1, 3, 10): 24, (1, 3, 11): 27, (1, 3, 12): 31, (1, 3, 13): 34, (1, 3, 15): 39},
    "GCC": {(4, 8, 0): 17, (7, 0, 0): 27, (12, 0, 0): 35, (14, 0, 0): 39},
}


def _glibc_minor(version: str) -> int | None:
    """Return N of the first glibc 2.N on whose distributions a symbol version is there; None when nobody knows."""
    library, _, text = version.partition("_")
    if not re.fullmatch(r"[0-9]+(\.[0-9]+)*", text):
        return None
    number = tuple(map(int, text.split(".")))
    if library == "GLIBC":
        return number[1] if number[0] == 2 else None
    rows = _GCC_LIBRARIES.get(library, {})
    return next((minor for newest, minor in rows.items() if number <= newest), None)


def foreign_libraries(needed: Iterable[str]) -> tuple[str, ...]:
    """Return the libraries that not every system has."""
    return tuple(sorted(name for name in needed if not SYSTEM_LIBRARIES.fullmatch(name)))


def platform_tag(module: SharedObject) -> str:
    """Return the wheel's platform tag: `manylinux_2_N_<machine>`, else `linux_<machine>`.

    The latter promises nothing of other systems: for symbol versions that no profile has.
    """
    minors = [_glibc_minor(version) for version in module.versions]
    known = [minor for minor in minors if minor is not None]
    if len(known) < len(minors):
        return f"linux_{module.machine}"
    return f"manylinux_2_{max((_OLDEST, *known))}_{module.machine}"
