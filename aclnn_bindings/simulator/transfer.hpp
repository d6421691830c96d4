// Executors of aclnnInplaceCopy and aclnnInplaceZero that were not run yet.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gmmfr {

// False where the handle is none of them.
bool destroy_transfer(const void* executor);
uint64_t live_transfers();
// Each with the call that made it.
void list_live_transfers(std::vector<std::string>* words);

}  // namespace gmmfr
