// An instance of a kernel as its level's table holds it.
#pragma once

#include "strata/inline.hpp"

namespace strata {

template <class Function>
struct Named;

// Called as the function is. `name` is the canonical one, which `strata-gen describe` explains.
template <class... Args>
struct Named<void(Args...)> {
  const char* name;
  void (*run)(Args...);

  STRATA_INLINE void operator()(Args... args) const { run(args...); }
};

}  // namespace strata
