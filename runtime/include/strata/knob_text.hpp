// The grammar of knob values. strata_runtime/knobs/grammar.py states it and is its twin: the same texts, values and
// messages. Nothing here knows a knob; the table of knobs is generated.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace strata {

/// A text that is no value of its knob. The message names the knob, the text and what is expected.
class KnobError : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

namespace knob_text {

/// Bounds of a number, in base units (bytes, nanoseconds). `above` and `below` exclude the bound itself.
template <typename Number>
struct Range {
  std::optional<Number> minimum{};
  std::optional<Number> maximum{};
  std::optional<Number> above{};
  std::optional<Number> below{};
  std::optional<Number> multiple_of{};
};

using Choices = std::span<const std::string_view>;

/// Drops blanks (space, tab, carriage return, line feed) from both ends.
std::string_view trim(std::string_view text);

// Each parser takes the knob's name, for messages, and a text without surrounding blanks that is not empty. Each
// throws KnobError.
bool parse_bool(std::string_view name, std::string_view text);
std::int64_t parse_int(std::string_view name, std::string_view text, const Range<std::int64_t>& range);
double parse_float(std::string_view name, std::string_view text, const Range<double>& range);
/// Returns bytes.
std::int64_t parse_bytes(std::string_view name, std::string_view text, const Range<std::int64_t>& range);
/// Returns nanoseconds.
std::int64_t parse_duration(std::string_view name, std::string_view text, const Range<std::int64_t>& range);
/// Returns the index of the choice.
std::size_t parse_choice(std::string_view name, std::string_view text, Choices choices);
std::string parse_text(std::string_view name, std::string_view text);
std::vector<std::string> parse_list(std::string_view name, std::string_view text);

/// A word that stands for a value.
template <typename Number>
struct Named {
  std::string_view word;
  Number value;
};

/// The value that the text stands for as a word, or what `parse` makes of it. What `parse` throws names the words too.
template <typename Number, std::size_t kWords, typename Parse>
Number word_or(std::string_view text, const std::array<Named<Number>, kWords>& words, const Parse& parse) {
  for (const auto& named : words) {
    if (named.word == text) return named.value;
  }
  try {
    return parse();
  } catch (const KnobError& problem) {
    auto message = std::string(problem.what()) + "; allowed too: ";
    for (const auto& named : words) message.append(&named == words.data() ? "" : ", ").append(named.word);
    throw KnobError(message);
  }
}

/// Canonical text of a value that a word may stand for.
template <typename Number, std::size_t kWords>
std::string show_word_or(Number value, const std::array<Named<Number>, kWords>& words, std::string (*show)(Number)) {
  for (const auto& named : words) {
    if (named.value == value) return std::string(named.word);
  }
  return show(value);
}

// Canonical texts: parsing one gives the value again.
std::string show_bool(bool value);
std::string show_int(std::int64_t value);
std::string show_float(double value);
std::string show_bytes(std::int64_t bytes);
std::string show_duration(std::int64_t nanoseconds);
std::string show_list(const std::vector<std::string>& items);

}  // namespace knob_text
}  // namespace strata
