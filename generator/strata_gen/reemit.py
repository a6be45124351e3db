"""Emission as a step of the native build, for those who run Ninja by hand after an edit."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from strata_gen.layout import Layout
from strata_gen.write import write_atomically


def _quoted(text: str) -> str:
    return "[==[" + text + "]==]"


def reemit_text(command: Iterable[str], inputs: Iterable[Path]) -> str:
    """Return a CMake file that names every input as a dependency and emits again while CMake configures.

    Ninja runs CMake again when an input is newer than `build.ninja`, reads the new build file, and compiles what the
    emission changed. Nothing is emitted while strata-gen itself drives the build, or when it cannot be imported.
    """
    words = [_quoted(word) for word in command]
    depends = "\n  ".join(_quoted(str(path)) for path in inputs)
    return f"""# Written by strata-gen; specs, templates, generator modules and hand-written sources of this tree.
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
  {depends}
)
if(NOT DEFINED ENV{{_STRATA_GEN_RUNNING}})
  execute_process(COMMAND {words[0]} -c "import strata_gen" RESULT_VARIABLE strata_gen_missing ERROR_QUIET)
  if(NOT strata_gen_missing)
    file(SHA256 "${{CMAKE_SOURCE_DIR}}/CMakeLists.txt" strata_lists_before)
    execute_process(COMMAND {" ".join(words)} COMMAND_ERROR_IS_FATAL ANY)
    file(SHA256 "${{CMAKE_SOURCE_DIR}}/CMakeLists.txt" strata_lists_after)
    if(NOT strata_lists_before STREQUAL strata_lists_after)
      message(FATAL_ERROR "CMakeLists.txt was emitted anew: run ninja once more")
    endif()
  endif()
endif()
"""


def write_reemit(layout: Layout, command: tuple[str, ...], inputs: Iterable[Path]) -> Path | None:
    """Write `reemit.cmake` beside the tree when its content changed; None when there is no command to repeat."""
    if not command:
        return None
    path = layout.root / "reemit.cmake"
    data = reemit_text(command, inputs).encode()
    if not path.is_file() or path.read_bytes() != data:
        write_atomically(path, data)
    return path
