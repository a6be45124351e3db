#pragma once

namespace strata {

constexpr int kAnswer = 42;

int answer();
int vector_bytes();

}  // namespace strata
