// Handles that are never addresses: a destroyed or foreign handle is recognised, not followed.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "entry.hpp"

namespace gmmfr {

enum class HandleKind : uint64_t { context = 1, stream, event, tensor, int_array, executor, transfer };

const char* handle_noun(HandleKind kind);
// Kind of a handle made by this library, or 0 for any other value.
uint64_t handle_kind(const void* handle);

// Layout: 0x5A in the top byte (no user address on x86-64 or aarch64 looks like it), kind 4 bits, generation
// 24 bits, slot 24 bits, 4 bits zero.
template <class Object>
class Registry {
public:
    explicit Registry(HandleKind kind) : kind_(kind) {}

    void* add(std::shared_ptr<Object> object) {
        std::lock_guard<std::mutex> lock(mutex_);
        if (free_.empty()) {
            if (slots_.size() > kSlotMask) throw std::bad_alloc();
            free_.push_back(static_cast<uint32_t>(slots_.size()));
            slots_.emplace_back();
        }
        const uint32_t index = free_.back();
        free_.pop_back();
        Slot& slot = slots_[index];
        slot.generation = (slot.generation + 1) & kGenerationMask;
        slot.object = std::move(object);
        slot.origin = current_call();
        ++live_;
        return encode(index, slot.generation);
    }

    std::shared_ptr<Object> find(const void* handle) const {
        std::lock_guard<std::mutex> lock(mutex_);
        const Slot* slot = locate(handle);
        return slot == nullptr ? nullptr : slot->object;
    }

    std::shared_ptr<Object> remove(const void* handle) {
        std::lock_guard<std::mutex> lock(mutex_);
        Slot* slot = const_cast<Slot*>(locate(handle));
        if (slot == nullptr) return nullptr;
        free_.push_back(static_cast<uint32_t>(slot - slots_.data()));
        --live_;
        return std::move(slot->object);
    }

    std::vector<std::shared_ptr<Object>> all() const {
        std::lock_guard<std::mutex> lock(mutex_);
        std::vector<std::shared_ptr<Object>> objects;
        for (const Slot& slot : slots_) {
            if (slot.object) objects.push_back(slot.object);
        }
        return objects;
    }

    // Each live object with the call that made it.
    void list_live(std::vector<std::string>* words) const {
        std::lock_guard<std::mutex> lock(mutex_);
        for (size_t index = 0; index < slots_.size(); ++index) {
            if (!slots_[index].object) continue;
            words->push_back(text(handle_noun(kind_), " ",
                                  encode(static_cast<uint32_t>(index), slots_[index].generation), " made by ",
                                  slots_[index].origin));
        }
    }

    uint64_t live() const {
        std::lock_guard<std::mutex> lock(mutex_);
        return live_;
    }

    // Why find() gave nothing.
    std::string explain(const void* handle) const {
        if (handle == nullptr) return text(handle_noun(kind_), " is NULL");
        const uint64_t kind = handle_kind(handle);
        if (kind == static_cast<uint64_t>(kind_)) {
            return text(handle_noun(kind_), " ", handle, " was destroyed or used up before");
        }
        if (kind != 0) {
            return text(handle, " is no ", handle_noun(kind_), ", it is a handle of kind ",
                        handle_noun(static_cast<HandleKind>(kind)));
        }
        return text(handle, " is no ", handle_noun(kind_), " of this runtime");
    }

private:
    struct Slot {
        uint32_t generation = 0;
        std::shared_ptr<Object> object;
        Origin origin;
    };

    static constexpr uint64_t kSlotMask = 0xFFFFFF;
    static constexpr uint32_t kGenerationMask = 0xFFFFFF;

    void* encode(uint32_t index, uint32_t generation) const {
        return reinterpret_cast<void*>((uint64_t{0x5A} << 56) | (static_cast<uint64_t>(kind_) << 52) |
                                       (uint64_t{generation} << 28) | (uint64_t{index} << 4));
    }

    const Slot* locate(const void* handle) const {
        if (handle_kind(handle) != static_cast<uint64_t>(kind_)) return nullptr;
        const auto bits = reinterpret_cast<uint64_t>(handle);
        const uint64_t index = (bits >> 4) & kSlotMask;
        if (index >= slots_.size()) return nullptr;
        const Slot& slot = slots_[index];
        return slot.object && slot.generation == ((bits >> 28) & kGenerationMask) ? &slot : nullptr;
    }

    const HandleKind kind_;
    mutable std::mutex mutex_;
    std::vector<Slot> slots_;
    std::vector<uint32_t> free_;
    uint64_t live_ = 0;
};

}  // namespace gmmfr
