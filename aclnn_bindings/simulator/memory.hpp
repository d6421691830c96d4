// Device memory: host allocations that the simulator knows, so that every device address can be checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "entry.hpp"

namespace gmmfr {

// Owned bytes; freed when the last user (the table or a running kernel) lets go.
class Block {
public:
    Block(size_t bytes, int32_t device);
    ~Block();
    Block(const Block&) = delete;
    Block& operator=(const Block&) = delete;

    std::byte* data() const { return data_; }
    size_t bytes() const { return bytes_; }
    int32_t device() const { return device_; }
    bool valid() const { return data_ != nullptr; }

private:
    std::byte* data_ = nullptr;
    size_t bytes_;
    size_t mapped_ = 0;
    int32_t device_;
};

struct MemoryStatistics {
    uint64_t live_bytes = 0;
    uint64_t peak_bytes = 0;
    uint64_t live_allocations = 0;
};

class MemoryTable {
public:
    explicit MemoryTable(uint64_t capacity) : capacity_(capacity) {}

    Failure allocate(size_t bytes, int32_t device, void** address);
    // False when address is not the start of a live allocation.
    bool release(void* address);
    // The live block that holds [address, address + bytes), or NULL with the reason in *why.
    std::shared_ptr<Block> pin(const void* address, size_t bytes, std::string* why) const;
    bool contains(const void* address) const;

    MemoryStatistics statistics() const;
    void reset_peak();
    uint64_t capacity() const { return capacity_; }

private:
    std::shared_ptr<Block> block_at(uintptr_t address) const;

    const uint64_t capacity_;
    mutable std::mutex mutex_;
    std::map<uintptr_t, std::shared_ptr<Block>> blocks_;
    MemoryStatistics statistics_;
};

MemoryTable& device_memory();
MemoryTable& host_memory();

}  // namespace gmmfr
