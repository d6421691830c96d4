// Device memory: host allocations that the simulator knows, so that every device address can be checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "entry.hpp"

namespace gmmfr {

// Owned bytes; freed when the last user (the table or a running kernel) lets go. Under the checking device they
// stand between guard bytes, and are filled with 0xFF (NaN, -1) before their first and after their last use; what
// the device adds to the bytes that were asked for is then no part of them.
class Block {
public:
    Block(size_t asked, size_t taken, int32_t device, bool checked);
    ~Block();
    Block(const Block&) = delete;
    Block& operator=(const Block&) = delete;

    std::byte* data() const { return data_; }
    size_t bytes() const { return bytes_; }  // that may be used
    size_t taken() const { return taken_; }  // of the device
    int32_t device() const { return device_; }
    bool valid() const { return data_ != nullptr; }
    const Origin& origin() const { return origin_; }
    // Which guard was written over: "before the start", "after the end" or "".
    const char* damage() const;

private:
    void poison();

    std::byte* raw_ = nullptr;
    std::byte* data_ = nullptr;
    const size_t bytes_, taken_;
    const int32_t device_;
    const bool checked_;
    const Origin origin_;
};

struct MemoryStatistics {
    uint64_t live_bytes = 0;
    uint64_t peak_bytes = 0;
    uint64_t live_allocations = 0;
};

class MemoryTable {
public:
    explicit MemoryTable(uint64_t capacity) : capacity_(capacity) {}

    // taken counts for the device: asked and what the device adds to it.
    Failure allocate(size_t asked, size_t taken, int32_t device, void** address);
    // Fails when address is not the start of a live allocation, or when its guards were damaged.
    Failure release(void* address);
    // The live block that holds [address, address + bytes), or NULL with the reason in *why.
    std::shared_ptr<Block> pin(const void* address, size_t bytes, std::string* why) const;
    bool contains(const void* address) const;
    // The first live allocation with damaged guards.
    Failure check_guards() const;
    void list_live(const char* noun, std::vector<std::string>* words) const;

    MemoryStatistics statistics() const;
    void reset_peak();
    uint64_t capacity() const { return capacity_; }

private:
    struct Freed {
        uintptr_t start, end;
        Origin allocated, freed;
    };

    std::shared_ptr<Block> block_at(uintptr_t address) const;
    std::string explain(uintptr_t address) const;

    const uint64_t capacity_;
    mutable std::mutex mutex_;
    std::map<uintptr_t, std::shared_ptr<Block>> blocks_;
    std::deque<Freed> freed_;  // the latest, to tell a freed address from a foreign one
    MemoryStatistics statistics_;
};

MemoryTable& device_memory();
MemoryTable& host_memory();

}  // namespace gmmfr
