// Runs jobs from standard input until it ends. A job: a line `kernel wave seed numbers arrays`, a line of the numbers,
// a line of the arrays' sizes in bytes, then the arrays. The answer: `ok` and the arrays, or a line that says why not.
#include <cstdio>
#include <iostream>
#include <string>

#include "faults.hpp"
#include "jobs.hpp"

namespace {

using strata::device_tests::Array;
using strata::device_tests::Job;

Job read_job(std::istream& in) {
  Job job{};
  std::size_t numbers = 0;
  std::size_t arrays = 0;
  in >> job.wave >> job.seed >> numbers >> arrays;
  job.numbers.resize(numbers);
  for (double& number : job.numbers) in >> number;
  job.arrays.resize(arrays);
  for (Array& array : job.arrays) in >> array.bytes;
  in.get();
  for (Array& array : job.arrays) {
    array.data = std::make_unique_for_overwrite<std::byte[]>(array.bytes);
    in.read(reinterpret_cast<char*>(array.data.get()), static_cast<std::streamsize>(array.bytes));
  }
  if (!in) throw std::runtime_error("a job that ends early");
  return job;
}

strata::device_tests::Runner find(const std::string& name) {
  using namespace strata::device_tests;
  if (const auto found = kernels().find(name); found != kernels().end()) return found->second;
  return faults().at(name);
}

}  // namespace

int main() {
  std::ios::sync_with_stdio(false);
  for (std::string name; std::cin >> name;) {
    const Job job = read_job(std::cin);
    try {
      find(name)(job);
    } catch (const std::exception& problem) {
      std::cout << problem.what() << std::endl;
      continue;
    }
    std::cout << "ok\n";
    for (const Array& array : job.arrays) {
      std::cout.write(reinterpret_cast<const char*>(array.data.get()), static_cast<std::streamsize>(array.bytes));
    }
    std::cout.flush();
  }
}
