// The last phase-1 call of a thread as JSON, for tests that compare what clients pass.
#pragma once

#include "call.hpp"

namespace gmmfr {

void trace_call(const Call& call);
const char* last_call();
void count_phase1(bool cache_hit);
uint64_t phase1_calls();
uint64_t cache_hits();
void reset_phase1_counts();

}  // namespace gmmfr
