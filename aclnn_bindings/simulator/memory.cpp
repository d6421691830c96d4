#include "memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "checking.hpp"

namespace gmmfr {
namespace {

constexpr size_t kAlignment = 512;
constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kGuard = 64;
constexpr uint8_t kGuardByte = 0xA7;
constexpr uint8_t kPoisonByte = 0xFF;
constexpr size_t kPoisonedEnd = size_t{4} << 20;
constexpr size_t kFreedKept = 1024;
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

Failure damaged(const Block& block) {
    return failure(ACL_ERROR_RT_DEVICE_MEM_ERROR, "bytes ", block.damage(), " of the allocation ", block.data(), " (",
                   block.bytes(), " bytes, made by ", block.origin(), ") were written over");
}

}  // namespace

Block::Block(size_t asked, size_t taken, int32_t device, bool checked)
    : bytes_(checked ? asked : taken), taken_(taken), device_(device), checked_(checked), origin_(current_call()) {
    void* address = nullptr;
    const size_t guards = checked ? kAlignment + kGuard : 0;
    const bool huge = !checked && taken >= 2 * kHugePage;
    const size_t total = round_up(taken + guards, huge ? kHugePage : kAlignment);
    if (posix_memalign(&address, huge ? kHugePage : kAlignment, total) != 0) return;
    if (huge) madvise(address, total, MADV_HUGEPAGE);
    raw_ = static_cast<std::byte*>(address);
    data_ = raw_ + (checked ? kAlignment : 0);
    if (!checked) return;
    std::memset(data_ - kGuard, kGuardByte, kGuard);
    std::memset(data_ + bytes_, kGuardByte, kGuard);
    poison();
}

Block::~Block() {
    if (checked_ && valid()) poison();
    std::free(raw_);
}

// All of it, or both ends of what is too long to fill.
void Block::poison() {
    const size_t end = std::min(bytes_, kPoisonedEnd);
    std::memset(data_, kPoisonByte, end);
    std::memset(data_ + bytes_ - end, kPoisonByte, end);
}

const char* Block::damage() const {
    if (!checked_) return "";
    const auto whole = [](const std::byte* guard) {
        return std::all_of(guard, guard + kGuard, [](std::byte byte) { return byte == std::byte{kGuardByte}; });
    };
    if (!whole(data_ - kGuard)) return "before the start";
    return whole(data_ + bytes_) ? "" : "after the end";
}

Failure MemoryTable::allocate(size_t asked, size_t taken, int32_t device, void** address) {
    std::lock_guard<std::mutex> lock(mutex_);
    const uint64_t left = capacity_ - std::min(capacity_, statistics_.live_bytes);
    if (taken > left) {
        return failure(ACL_ERROR_RT_MEMORY_ALLOCATION, "out of memory: ", taken, " bytes asked for, ", left, " of ",
                       capacity_, " free");
    }
    auto block = std::make_shared<Block>(asked, taken, device, checking());
    if (!block->valid()) {
        return failure(ACL_ERROR_RT_MEMORY_ALLOCATION, "out of memory: the host cannot give ", taken, " bytes");
    }
    *address = block->data();
    blocks_.emplace(reinterpret_cast<uintptr_t>(block->data()), std::move(block));
    statistics_.live_bytes += taken;
    statistics_.live_allocations += 1;
    statistics_.peak_bytes = std::max(statistics_.peak_bytes, statistics_.live_bytes);
    return {};
}

Failure MemoryTable::release(void* address) {
    std::shared_ptr<Block> block;  // its bytes go back after the lock
    std::lock_guard<std::mutex> lock(mutex_);
    const auto start = reinterpret_cast<uintptr_t>(address);
    const auto found = blocks_.find(start);
    if (found == blocks_.end()) {
        return failure(ACL_ERROR_RT_PARAM_INVALID,
                       block_at(start) ? text("address ", address, " lies inside an allocation, it is not its start")
                                       : explain(start));
    }
    block = std::move(found->second);
    blocks_.erase(found);
    statistics_.live_bytes -= block->taken();
    statistics_.live_allocations -= 1;
    freed_.push_back({start, start + block->bytes(), block->origin(), current_call()});
    if (freed_.size() > kFreedKept) freed_.pop_front();
    return *block->damage() == '\0' ? Failure{} : damaged(*block);
}

// What is known of an address outside every live allocation.
std::string MemoryTable::explain(uintptr_t address) const {
    const auto* shown = reinterpret_cast<const void*>(address);
    for (auto freed = freed_.rbegin(); freed != freed_.rend(); ++freed) {
        if (address < freed->start || address >= freed->end) continue;
        return text("address ", shown, " was freed by ", freed->freed, "; it was made by ", freed->allocated);
    }
    return text("address ", shown, " lies in no live allocation of this runtime");
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
        *why = explain(start);
        return nullptr;
    }
    const size_t room = block->bytes() - (start - reinterpret_cast<uintptr_t>(block->data()));
    if (bytes > room) {
        *why = text(bytes, " bytes at ", address, " pass the end of their allocation of ", block->bytes(),
                    " bytes (made by ", block->origin(), ") by ", bytes - room);
        return nullptr;
    }
    return block;
}

bool MemoryTable::contains(const void* address) const {
    std::lock_guard<std::mutex> lock(mutex_);
    return block_at(reinterpret_cast<uintptr_t>(address)) != nullptr;
}

Failure MemoryTable::check_guards() const {
    std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& [start, block] : blocks_) {
        if (*block->damage() != '\0') return damaged(*block);
    }
    return {};
}

void MemoryTable::list_live(const char* noun, std::vector<std::string>* words) const {
    std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& [start, block] : blocks_) {
        words->push_back(text(noun, " ", static_cast<const void*>(block->data()), " of ", block->bytes(),
                              " bytes made by ", block->origin()));
    }
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
