// Phase 2: one launch of the operator, run on the stream's thread.
#pragma once

#include "call.hpp"
#include "memory.hpp"

namespace gmmfr {

// Everything that the queued work needs; descriptors and executor may go once it is made.
struct Launch {
    std::shared_ptr<const Plan> plan;
    std::array<void*, kArguments> addresses{};
    void* workspace = nullptr;
    uint64_t workspace_size = 0;
    bool saturate = false;
};

Failure run_launch(const Launch& launch);

// aclrtSetDeviceSatMode: fp16 overflow gives the largest number instead of infinity.
bool saturation_mode();

}  // namespace gmmfr
