// A job that the tests send: a kernel, numbers and arrays; and where a kernel meets them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "emulator.hpp"
#include "strata/simt/inline.hpp"

namespace strata::device_tests {

// Each array has an allocation of its own and of exactly its size, for a sanitizer to watch.
struct Array {
  std::unique_ptr<std::byte[]> data;
  std::size_t bytes;
};

struct Job {
  int wave;
  std::uint64_t seed;
  std::vector<double> numbers;
  std::vector<Array> arrays;

  double number(std::size_t i) const { return numbers.at(i); }
  int integer(std::size_t i) const { return static_cast<int>(numbers.at(i)); }

  // Null for an array of no bytes.
  template <class Value>
  Value* array(std::size_t i) const {
    const Array& found = arrays.at(i);
    return found.bytes == 0 ? nullptr : reinterpret_cast<Value*>(found.data.get());
  }
};

// Waves of 1 are what a CPU runs.
template <class Kernel>
void run(const Job& job, const typename Kernel::Args& args) {
  if (job.wave == 1) {
    simt::run_inline<Kernel>(args);
  } else if (job.wave == 32) {
    emulator::launch<Kernel, 32>(args, job.seed);
  } else if (job.wave == 64) {
    emulator::launch<Kernel, 64>(args, job.seed);
  } else {
    throw std::invalid_argument("a wave has 1, 32 or 64 lanes");
  }
}

using Runner = void (*)(const Job&);

const std::map<std::string, Runner>& kernels();

}  // namespace strata::device_tests
