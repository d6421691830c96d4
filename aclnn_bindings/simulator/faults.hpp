// Failures on order: function:n:code[,function:n:code...], the n-th call of function returns code.
#pragma once

#include "entry.hpp"

namespace gmmfr {

// The code that the present call of function must return, or 0.
int injected_fault(const char* function);

// Replaces all orders and starts counting anew; NULL or "" for none. False when the text cannot be read.
bool set_faults(const char* orders);

}  // namespace gmmfr
