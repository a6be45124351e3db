// Encodes floats without the Python module: `encode FORMAT COLUMNS FLOATS BLOCKS`, the last two being files.
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <vector>

#include "strata/conversion.hpp"
#include "strata/weights.hpp"

int main(int count, char** arguments) {
  if (count != 5) return 2;
  const strata::formats::Info& format = strata::format_named(arguments[1]);
  const auto columns = static_cast<std::size_t>(std::strtoull(arguments[2], nullptr, 10));
  std::ifstream from(arguments[3], std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(from), {}};
  std::vector<float> values(bytes.size() / sizeof(float));
  std::copy_n(bytes.data(), values.size() * sizeof(float), reinterpret_cast<char*>(values.data()));
  const std::size_t rows = values.size() / columns;
  std::vector<std::byte> blocks(rows * strata::row_bytes(format, columns));
  strata::quantize(nullptr, format, rows, columns, values.data(), blocks.data());
  std::ofstream to(arguments[4], std::ios::binary);
  to.write(reinterpret_cast<const char*>(blocks.data()), static_cast<std::streamsize>(blocks.size()));
  return to ? 0 : 1;
}
