"""The generated C++ parser of knobs as a small library, without Python bindings or anything else of the runtime."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from strata_gen.emitter import GeneratedFile
from strata_gen.paths import runtime_root
from support.compiler import compiler_words

_SHIM = r"""
#include <cstring>
#include "strata/gen/knobs.hpp"
#include "strata/knob_text.hpp"

namespace {
long give(const std::string& text, char* out, std::size_t capacity) {
  const auto size = std::min(text.size(), capacity);
  std::memcpy(out, text.data(), size);
  return static_cast<long>(size);
}
std::string joined(const std::vector<std::string>& lines) {
  std::string result;
  for (const auto& line : lines) result.append(line).append("\n");
  return result;
}
}  // namespace

// Each returns the number of bytes written to `out`, or -1 - that number when they are an error's message.
extern "C" long parse_and_print(const char* name, const char* text, std::size_t size, char* out, std::size_t capacity) {
  try {
    strata::Knobs knobs;
    strata::parse(name, {text, size}, knobs);
    return give(strata::print(name, knobs), out, capacity);
  } catch (const strata::KnobError& problem) {
    return -1 - give(problem.what(), out, capacity);
  }
}

extern "C" long environment(const char* name, char* out, std::size_t capacity) {
  try {
    strata::Knobs knobs;
    const auto lines = strata::parse_environment(knobs);
    return give(strata::print(name, knobs) + "\n" + joined(lines), out, capacity);
  } catch (const strata::KnobError& problem) {
    return -1 - give(problem.what(), out, capacity);
  }
}
"""
_CAPACITY = 1 << 16


class Refused(Exception):
    """A `strata::KnobError`, by its message."""


@dataclass(frozen=True)
class KnobLibrary:
    """`strata::parse`, `strata::print` and `strata::parse_environment` of one generated tree."""

    library: ctypes.CDLL

    def parse_and_print(self, name: str, text: str) -> str:
        """Parse into fresh knobs and return the canonical text. Raises `Refused`."""
        data = text.encode()
        out = ctypes.create_string_buffer(_CAPACITY)
        size = self.library.parse_and_print(name.encode(), data, ctypes.c_size_t(len(data)), out, _CAPACITY)
        return _taken(out, size)

    def environment(self, name: str) -> tuple[str, tuple[str, ...]]:
        """Read this process's environment; return the canonical text of one knob, and the lines. Raises `Refused`."""
        out = ctypes.create_string_buffer(_CAPACITY)
        value, *lines = _taken(out, self.library.environment(name.encode(), out, _CAPACITY)).split("\n")
        return value, tuple(line for line in lines if line)


def _taken(out: ctypes.Array[ctypes.c_char], size: int) -> str:
    if size < 0:
        raise Refused(out.raw[: -1 - size].decode())
    return out.raw[:size].decode()


def compile_knobs(files: Iterable[GeneratedFile], folder: Path) -> KnobLibrary:
    """Compile the generated `knobs.cpp` among `files` with the hand-written grammar, warnings being errors."""
    for file in files:
        if file.path.endswith(("/knobs.hpp", "/knobs.cpp")):
            path = folder / file.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(file.text, encoding="utf-8")
    shim = folder / "shim.cpp"
    shim.write_text("#include <algorithm>\n#include <string>\n#include <vector>\n" + _SHIM, encoding="utf-8")
    runtime = runtime_root()
    library = folder / "libknobs.so"
    warnings = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror"]
    includes = [f"-I{runtime / 'include'}", f"-I{folder / 'include'}"]
    sources = [str(folder / "src/gen/knobs.cpp"), str(runtime / "src/knob_text.cpp"), str(shim)]
    command = [*compiler_words(), "-std=c++20", "-O0", "-fPIC", "-shared", *warnings, *includes, *sources]
    subprocess.run([*command, "-o", str(library)], check=True)
    loaded = ctypes.CDLL(str(library))
    loaded.parse_and_print.restype = ctypes.c_long
    loaded.environment.restype = ctypes.c_long
    return KnobLibrary(loaded)
