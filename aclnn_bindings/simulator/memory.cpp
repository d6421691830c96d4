#include "memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <limits>

namespace gmmfr {
namespace {

constexpr size_t kAlignment = 512;
constexpr size_t kHugePage = size_t{2} << 20;
constexpr uint64_t kDefaultCapacity = uint64_t{64} << 30;

uint64_t capacity_from_environment() {
    const char* words = std::getenv("GMMFR_SIM_MEMORY");
    if (words == nullptr || *words == '\0') return kDefaultCapacity;
    char* end = nullptr;
    const unsigned long long bytes = std::strtoull(words, &end, 10);
    if (*end != '\0' || bytes == 0) {
        std::fprintf(stderr, "GMMFR_SIM_MEMORY: expected a number of bytes, got \"%s\"\n", words);
        std::abort();
    }
    return bytes;
}

size_t round_up(size_t bytes, size_t unit) {
    return (bytes + unit - 1) / unit * unit;
}

}  // namespace

Block::Block(size_t bytes, int32_t device) : bytes_(bytes), device_(device) {
    void* address = nullptr;
    if (bytes >= 2 * kHugePage) {
        mapped_ = round_up(bytes, kHugePage);
        if (posix_memalign(&address, kHugePage, mapped_) != 0) return;
        madvise(address, mapped_, MADV_HUGEPAGE);
    } else if (posix_memalign(&address, kAlignment, round_up(bytes, kAlignment)) != 0) {
        return;
    }
    data_ = static_cast<std::byte*>(address);
}

Block::~Block() {
    std::free(data_);
}

Failure MemoryTable::allocate(size_t bytes, int32_t device, void** address) {
    std::lock_guard<std::mutex> lock(mutex_);
    const uint64_t left = capacity_ - std::min(capacity_, statistics_.live_bytes);
    if (bytes > left) {
        return failure(ACL_ERROR_RT_MEMORY_ALLOCATION, "out of memory: ", bytes, " bytes asked for, ", left, " of ",
                       capacity_, " free");
    }
    auto block = std::make_shared<Block>(bytes, device);
    if (!block->valid()) {
        return failure(ACL_ERROR_RT_MEMORY_ALLOCATION, "out of memory: the host cannot give ", bytes, " bytes");
    }
    *address = block->data();
    blocks_.emplace(reinterpret_cast<uintptr_t>(block->data()), std::move(block));
    statistics_.live_bytes += bytes;
    statistics_.live_allocations += 1;
    statistics_.peak_bytes = std::max(statistics_.peak_bytes, statistics_.live_bytes);
    return {};
}

bool MemoryTable::release(void* address) {
    std::shared_ptr<Block> block;  // its bytes go back after the lock
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = blocks_.find(reinterpret_cast<uintptr_t>(address));
    if (found == blocks_.end()) return false;
    block = std::move(found->second);
    blocks_.erase(found);
    statistics_.live_bytes -= block->bytes();
    statistics_.live_allocations -= 1;
    return true;
}

std::shared_ptr<Block> MemoryTable::block_at(uintptr_t address) const {
    auto next = blocks_.upper_bound(address);
    if (next == blocks_.begin()) return nullptr;
    const auto& block = std::prev(next)->second;
    return address - reinterpret_cast<uintptr_t>(block->data()) < block->bytes() ? block : nullptr;
}

std::shared_ptr<Block> MemoryTable::pin(const void* address, size_t bytes, std::string* why) const {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto start = reinterpret_cast<uintptr_t>(address);
    auto block = block_at(start);
    if (!block) {
        *why = text("address ", address, " lies in no live device allocation");
        return nullptr;
    }
    const size_t room = block->bytes() - (start - reinterpret_cast<uintptr_t>(block->data()));
    if (bytes > room) {
        *why = text(bytes, " bytes at ", address, " pass the end of their allocation of ", block->bytes(),
                    " bytes by ", bytes - room);
        return nullptr;
    }
    return block;
}

bool MemoryTable::contains(const void* address) const {
    std::lock_guard<std::mutex> lock(mutex_);
    return block_at(reinterpret_cast<uintptr_t>(address)) != nullptr;
}

MemoryStatistics MemoryTable::statistics() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return statistics_;
}

void MemoryTable::reset_peak() {
    std::lock_guard<std::mutex> lock(mutex_);
    statistics_.peak_bytes = statistics_.live_bytes;
}

MemoryTable& device_memory() {
    static auto* table = new MemoryTable(capacity_from_environment());
    return *table;
}

MemoryTable& host_memory() {
    static auto* table = new MemoryTable(std::numeric_limits<uint64_t>::max());
    return *table;
}

}  // namespace gmmfr
