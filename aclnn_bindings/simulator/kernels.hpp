// The computations of phase 2, after the routing is read and checked.
#pragma once

#include "routing.hpp"

namespace gmmfr {

Failure run_mx(const Launch& launch, const Routing& routing);
Failure run_w4a8(const Launch& launch, const Routing& routing);

}  // namespace gmmfr
