#include "strata/knob_text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <numeric>
#include <system_error>
#include <type_traits>

namespace strata::knob_text {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";

struct Unit {
  std::string_view name;
  std::int64_t scale;
};

/// A kind of quantity. Units are in ascending order; a bare number counts in the first one where that is allowed.
struct Quantity {
  std::string_view what;
  std::string_view example;
  std::string_view base;
  std::span<const Unit> units;
  bool bare_numbers;
};

constexpr std::array kByteUnits = {
    Unit{"B", 1},           Unit{"kB", 1'000},         Unit{"KiB", 1'024},     Unit{"MB", 1'000'000},
    Unit{"MiB", 1L << 20U}, Unit{"GB", 1'000'000'000}, Unit{"GiB", 1L << 30U}, Unit{"TB", 1'000'000'000'000},
    Unit{"TiB", 1L << 40U},
};
constexpr std::array kDurationUnits = {
    Unit{"ns", 1},
    Unit{"us", 1'000},
    Unit{"ms", 1'000'000},
    Unit{"s", 1'000'000'000},
    Unit{"min", 60'000'000'000},
    Unit{"h", 3'600'000'000'000},
};
constexpr Quantity kBytes{"size", "512MiB", "bytes", kByteUnits, true};
constexpr Quantity kDuration{"duration", "50us", "nanoseconds", kDurationUnits, false};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string quoted(std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string result = "'";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      result.append("\\x").append(1, kHex[byte >> 4U]).append(1, kHex[byte & 15U]);
    } else {
      result += c;
    }
  }
  return result + "'";
}

[[noreturn]] void refuse(std::string_view name, std::string_view text, std::string_view why) {
  throw KnobError(std::string(name).append(": ").append(quoted(text)).append(" ").append(why));
}

std::string_view take_digits(std::string_view& rest) {
  const auto* const end = std::find_if_not(rest.data(), rest.data() + rest.size(), is_digit);
  const auto digits = rest.substr(0, static_cast<std::size_t>(end - rest.data()));
  rest.remove_prefix(digits.size());
  return digits;
}

bool take(std::string_view& rest, std::string_view any_of) {
  if (rest.empty() || any_of.find(rest.front()) == std::string_view::npos) return false;
  rest.remove_prefix(1);
  return true;
}

bool all_zeros(std::string_view digits) { return digits.find_first_not_of('0') == std::string_view::npos; }

/// Reads an optional minus sign and digits. False when the number does not fit.
bool read_int64(std::string_view text, std::int64_t& value) {
  return std::from_chars(text.data(), text.data() + text.size(), value).ec == std::errc{};
}

template <typename Number>
bool is_inside(Number value, const Range<Number>& range) {
  if (range.minimum && value < *range.minimum) return false;
  if (range.maximum && value > *range.maximum) return false;
  if (range.above && value <= *range.above) return false;
  if (range.below && value >= *range.below) return false;
  if (!range.multiple_of) return true;
  if constexpr (std::is_integral_v<Number>) {
    return value % *range.multiple_of == 0;
  } else {
    return std::fmod(value, *range.multiple_of) == 0;
  }
}

template <typename Number>
Number checked(std::string_view name, std::string_view text, Number value, const Range<Number>& range,
               std::string (*show)(Number)) {
  if (is_inside(value, range)) return value;
  std::string rule;
  const auto add = [&](std::string_view words, const std::optional<Number>& bound) {
    if (bound) rule.append(rule.empty() ? "must be " : " and ").append(words).append(" ").append(show(*bound));
  };
  add("at least", range.minimum);
  add("above", range.above);
  add("at most", range.maximum);
  add("below", range.below);
  add("a multiple of", range.multiple_of);
  refuse(name, text, rule);
}

struct Decimal {
  std::string_view whole;
  std::string_view fraction;
  std::string_view exponent;
  bool negative_exponent = false;
};

/// Splits an unsigned decimal number; nothing when `rest` is not one.
std::optional<Decimal> split_decimal(std::string_view rest) {
  Decimal parts;
  parts.whole = take_digits(rest);
  if (take(rest, ".")) parts.fraction = take_digits(rest);
  if (parts.whole.empty() && parts.fraction.empty()) return std::nullopt;
  if (take(rest, "eE")) {
    parts.negative_exponent = take(rest, "-");
    if (!parts.negative_exponent) take(rest, "+");
    parts.exponent = take_digits(rest);
    if (parts.exponent.empty()) return std::nullopt;
  }
  return rest.empty() ? std::optional(parts) : std::nullopt;
}

/// For a decimal that no double holds: whether it is too large, and not too near zero.
bool is_huge(const Decimal& parts) {
  if (all_zeros(parts.whole) && all_zeros(parts.fraction)) return false;
  // The power of ten of the leading digit, before the exponent is counted.
  const auto power = all_zeros(parts.whole)
                         ? -static_cast<std::int64_t>(parts.fraction.find_first_not_of('0')) - 1
                         : static_cast<std::int64_t>(parts.whole.size() - parts.whole.find_first_not_of('0')) - 1;
  std::int64_t exponent = 0;
  if (!parts.exponent.empty() && !read_int64(parts.exponent, exponent)) return !parts.negative_exponent;
  return power > (parts.negative_exponent ? exponent : -exponent);
}

/// Returns scale * 0.fraction when that is a whole number. At most 18 digits count.
std::optional<std::int64_t> part_of_unit(std::string_view fraction, std::int64_t scale) {
  fraction = fraction.substr(0, fraction.find_last_not_of('0') + 1);
  if (fraction.empty()) return 0;
  if (fraction.size() > 18) return std::nullopt;
  std::int64_t numerator = 0;
  read_int64(fraction, numerator);
  std::int64_t denominator = 1;
  for (std::size_t i = 0; i < fraction.size(); ++i) denominator *= 10;
  const auto common = std::gcd(scale, denominator);
  denominator /= common;
  if (numerator % denominator != 0) return std::nullopt;
  return numerator / denominator * (scale / common);
}

const Unit* find_unit(const Quantity& quantity, std::string_view name, bool is_zero) {
  if (name.empty()) return quantity.bare_numbers || is_zero ? &quantity.units.front() : nullptr;
  const auto found = std::ranges::find(quantity.units, name, &Unit::name);
  return found != quantity.units.end() ? &*found : nullptr;
}

std::int64_t parse_quantity(std::string_view name, std::string_view text, const Quantity& quantity) {
  auto rest = text;
  const auto whole = take_digits(rest);
  const bool has_point = take(rest, ".");
  const auto fraction = has_point ? take_digits(rest) : std::string_view{};
  const bool well_formed = !whole.empty() && has_point != fraction.empty();
  const Unit* const unit = well_formed ? find_unit(quantity, rest, all_zeros(whole) && !has_point) : nullptr;
  if (unit == nullptr) {
    std::string why = "is not a ";
    why.append(quantity.what).append(" (a number and one of");
    for (const auto& known : quantity.units) why.append(" ").append(known.name);
    refuse(name, text, why.append(", such as ").append(quantity.example).append(")"));
  }
  const auto part = part_of_unit(fraction, unit->scale);
  if (!part) refuse(name, text, std::string("is not a whole number of ").append(quantity.base));
  std::int64_t value = 0;
  if (!read_int64(whole, value) || __builtin_mul_overflow(value, unit->scale, &value) ||
      __builtin_add_overflow(value, *part, &value)) {
    refuse(name, text, "does not fit in 64 bits");
  }
  return value;
}

std::string show_quantity(std::int64_t value, const Quantity& quantity) {
  if (value == 0) return "0";
  const auto unit = std::find_if(quantity.units.rbegin(), quantity.units.rend(),
                                 [value](const Unit& candidate) { return value % candidate.scale == 0; });
  return std::to_string(value / unit->scale).append(unit->name);
}

}  // namespace

std::string_view trim(std::string_view text) {
  const auto start = text.find_first_not_of(kBlanks);
  if (start == std::string_view::npos) return {};
  return text.substr(start, text.find_last_not_of(kBlanks) - start + 1);
}

bool parse_bool(std::string_view name, std::string_view text) {
  std::string folded(text);
  std::ranges::transform(folded, folded.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  for (const auto* word : {"1", "true", "on", "yes"}) {
    if (folded == word) return true;
  }
  for (const auto* word : {"0", "false", "off", "no"}) {
    if (folded == word) return false;
  }
  refuse(name, text, "is neither true (1, on, yes) nor false (0, off, no)");
}

std::int64_t parse_int(std::string_view name, std::string_view text, const Range<std::int64_t>& range) {
  auto number = text;
  take(number, "+");
  auto digits = text;
  take(digits, "+-");
  const bool well_formed = !take_digits(digits).empty() && digits.empty();
  if (!well_formed) refuse(name, text, "is not a whole number");
  std::int64_t value = 0;
  if (!read_int64(number, value)) refuse(name, text, "does not fit in 64 bits");
  return checked(name, text, value, range, &show_int);
}

double parse_float(std::string_view name, std::string_view text, const Range<double>& range) {
  auto digits = text;
  const bool negative = take(digits, "-");
  if (!negative) take(digits, "+");
  const auto parts = split_decimal(digits);
  if (!parts) refuse(name, text, "is not a decimal number");
  double value = 0;
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (result.ec == std::errc::result_out_of_range) {
    if (is_huge(*parts)) refuse(name, text, "is too large for a float");
    value = 0;
  }
  if (negative && value != 0) value = -value;
  return checked(name, text, value, range, &show_float);
}

std::int64_t parse_bytes(std::string_view name, std::string_view text, const Range<std::int64_t>& range) {
  return checked(name, text, parse_quantity(name, text, kBytes), range, &show_bytes);
}

std::int64_t parse_duration(std::string_view name, std::string_view text, const Range<std::int64_t>& range) {
  return checked(name, text, parse_quantity(name, text, kDuration), range, &show_duration);
}

std::size_t parse_choice(std::string_view name, std::string_view text, Choices choices) {
  const auto found = std::ranges::find(choices, text);
  if (found != choices.end()) return static_cast<std::size_t>(found - choices.begin());
  std::string why = "is not one of ";
  for (const auto choice : choices) why.append(choice == choices.front() ? "" : ", ").append(choice);
  refuse(name, text, why);
}

std::string parse_text(std::string_view name, std::string_view text) {
  if (text.find('\0') != std::string_view::npos) refuse(name, text, "holds a NUL character");
  return std::string(text);
}

std::vector<std::string> parse_list(std::string_view name, std::string_view text) {
  const auto rest = parse_text(name, text);
  std::vector<std::string> items;
  for (std::size_t start = 0; start <= rest.size();) {
    const auto end = std::min(rest.find(',', start), rest.size());
    items.emplace_back(trim(std::string_view(rest).substr(start, end - start)));
    start = end + 1;
  }
  if (std::ranges::any_of(items, &std::string::empty)) refuse(name, text, "has an empty item");
  return items;
}

std::string show_bool(bool value) { return value ? "true" : "false"; }

std::string show_int(std::int64_t value) { return std::to_string(value); }

std::string show_float(double value) {
  // The shortest digits that read back, laid out as Python's repr does: plain from 1e-4 up to 1e16.
  std::array<char, 64> buffer{};
  const double size = std::fabs(value);
  const bool plain = size == 0 || (size >= 1e-4 && size < 1e16);
  const auto format = plain ? std::chars_format::fixed : std::chars_format::scientific;
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, format);
  return {buffer.data(), result.ptr};
}

std::string show_bytes(std::int64_t bytes) { return show_quantity(bytes, kBytes); }

std::string show_duration(std::int64_t nanoseconds) { return show_quantity(nanoseconds, kDuration); }

std::string show_list(const std::vector<std::string>& items) {
  std::string result;
  for (const auto& item : items) result.append(result.empty() ? "" : ",").append(item);
  return result;
}

}  // namespace strata::knob_text
