// What is done with the generated table of knobs: look up, parse, print, read the environment.
#pragma once

#include <cstdlib>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "strata/knob_text.hpp"

namespace strata {

/// One run-time knob: how its text enters and leaves the struct `Knobs`.
template <typename Knobs>
struct KnobEntry {
  std::string_view name;
  const char* variable;
  bool default_when_invalid;
  void (*parse)(std::string_view name, std::string_view text, Knobs& knobs);
  std::string (*print)(const Knobs& knobs);
};

/// Text of a value that may be unset; unset is an empty text.
template <typename Value, typename Print>
std::string print_if_set(const std::optional<Value>& value, Print print) {
  return value ? std::string(print(*value)) : std::string();
}

template <typename Knobs>
const KnobEntry<Knobs>& find_knob(std::span<const KnobEntry<Knobs>> table, std::string_view name) {
  for (const auto& entry : table) {
    if (entry.name == name) return entry;
  }
  throw KnobError("there is no run-time knob '" + std::string(name) + "'");
}

/// Blank text is "unset" and changes nothing.
template <typename Knobs>
void parse_entry(const KnobEntry<Knobs>& entry, std::string_view text, Knobs& knobs) {
  if (const auto word = knob_text::trim(text); !word.empty()) entry.parse(entry.name, word, knobs);
}

/// Reads the variable of every knob. Returns one line for each text that was replaced by the default; throws
/// KnobError for one whose knob does not allow that.
template <typename Knobs>
std::vector<std::string> read_environment(std::span<const KnobEntry<Knobs>> table, Knobs& knobs) {
  std::vector<std::string> lines;
  for (const auto& entry : table) {
    const char* const text = std::getenv(entry.variable);
    if (text == nullptr) continue;
    try {
      parse_entry(entry, text, knobs);
    } catch (const KnobError& problem) {
      const auto message = std::string(problem.what()) + " (environment " + entry.variable + ")";
      if (!entry.default_when_invalid) throw KnobError(message);
      const auto held = entry.print(knobs);
      lines.push_back(message + (held.empty() ? "; it is off, as when unset" : "; the default " + held + " holds"));
    }
  }
  return lines;
}

}  // namespace strata
