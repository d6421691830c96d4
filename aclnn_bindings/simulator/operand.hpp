// A tensor in device memory, pinned and checked, read by its strides.
#pragma once

#include <cstring>

#include "kernel.hpp"

namespace gmmfr {

// Address errors of a kernel are reported with this code.
constexpr int kAddressError = ACL_ERROR_RT_AICORE_EXCEPTION;
// Wrong values in device data (row indices, group list).
constexpr int kValueError = ACL_ERROR_RT_VECTOR_CORE_EXCEPTION;

// Where a view lies: its first element (4-bit types: the byte that holds it) and all bytes that it touches.
struct Extent {
    std::byte* base = nullptr;
    const void* start = nullptr;
    size_t bytes = 0;
    int64_t lowest = 0, highest = 0;  // outermost elements, counted from the first
};
Failure find_extent(const Layout& layout, void* storage, Extent* extent);

class Operand {
public:
    // The whole view must lie inside one live allocation. 4-bit types: the offset counts elements and is
    // rounded down to a byte, strides stay in elements from there.
    Failure open(const Launch& launch, Argument argument);

    const Layout& layout() const { return *layout_; }
    int64_t stride(int at) const { return layout_->strides[at]; }
    bool opened() const { return layout_ != nullptr; }

    // Byte address of element 0 of the view.
    std::byte* base() const { return base_; }

    template <class Value>
    Value load(int64_t element) const {
        Value value;
        std::memcpy(&value, base_ + element * static_cast<int64_t>(sizeof(Value)), sizeof(Value));
        return value;
    }

private:
    const Layout* layout_ = nullptr;
    std::byte* base_ = nullptr;
    std::shared_ptr<Block> block_;
};

float bf16_to_float(uint16_t bits);

}  // namespace gmmfr
