// The checking device: what a lenient device lets pass and a strict one reports.
#pragma once

#include "tensor.hpp"

namespace gmmfr {

bool checking();
void set_checking(bool on);

// 0: rows are added in row order.
uint64_t shuffle_seed();
void set_shuffle_seed(uint64_t seed);

// Alignment of the data address, and the view inside the storage that the descriptor claims. lowest and highest
// are the view's outermost elements, counted from its first.
Failure check_descriptor(const char* name, const Layout& layout, const void* storage, int64_t lowest, int64_t highest);

// Everything that is still alive, each with the call that made it.
Failure find_leaks();

}  // namespace gmmfr
