#pragma once

#include "jobs.hpp"

namespace strata::device_tests {

const std::map<std::string, Runner>& faults();

}  // namespace strata::device_tests
