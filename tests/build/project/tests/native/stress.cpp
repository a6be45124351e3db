#include "strata/answer.hpp"

int main() { return strata::answer() == strata::kAnswer ? 0 : 1; }
