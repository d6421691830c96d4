#include "operand.hpp"

#include "checking.hpp"

namespace gmmfr {
namespace {

// Lowest and highest element of a view, relative to its first.
bool element_range(const Layout& layout, int64_t* lowest, int64_t* highest) {
    *lowest = *highest = 0;
    for (int i = 0; i < layout.view.rank(); ++i) {
        int64_t span = 0;
        if (__builtin_mul_overflow(layout.view[i] - 1, layout.strides[i], &span)) return false;
        int64_t* end = span < 0 ? lowest : highest;
        if (__builtin_add_overflow(*end, span, end)) return false;
    }
    return true;
}

}  // namespace

Failure find_extent(const Layout& layout, void* storage, Extent* extent) {
    if (layout.view.has_zero()) return {};
    const int64_t bits = bits_of(layout.dtype);
    int64_t first_bit = 0, low_bit = 0, end_bit = 0;
    const bool overflow = !element_range(layout, &extent->lowest, &extent->highest) ||
                          __builtin_mul_overflow(layout.offset, bits, &first_bit) ||
                          __builtin_mul_overflow(extent->lowest, bits, &low_bit) ||
                          __builtin_mul_overflow(extent->highest + 1, bits, &end_bit);
    if (overflow) return failure(kAddressError, "strides or offset leave the 64-bit range");
    if (storage == nullptr) return failure(kAddressError, "its data address is NULL");
    const auto base = reinterpret_cast<uintptr_t>(storage) + static_cast<uintptr_t>(first_bit >> 3);
    const int64_t low_byte = low_bit >> 3, end_byte = (end_bit + 7) >> 3;
    extent->base = reinterpret_cast<std::byte*>(base);
    extent->start = reinterpret_cast<const void*>(base + static_cast<uintptr_t>(low_byte));
    extent->bytes = static_cast<size_t>(end_byte - low_byte);
    return {};
}

Failure Operand::open(const Launch& launch, Argument argument) {
    layout_ = &(*launch.plan)[argument];
    if (layout_->view.has_zero()) return {};
    const char* name = argument_name(argument);
    void* storage = launch.addresses[argument];
    Extent extent;
    if (Failure failed = find_extent(*layout_, storage, &extent)) {
        return failure(failed.code, name, ": ", failed.message);
    }
    base_ = extent.base;
    if (checking()) {
        if (Failure failed = check_descriptor(name, *layout_, storage, extent.lowest, extent.highest)) return failed;
    }
    std::string why;
    block_ = device_memory().pin(extent.start, extent.bytes, &why);
    if (block_) return {};
    return failure(kAddressError, name, " with shape ", layout_->view.str(), " and dtype ", dtype_name(layout_->dtype),
                   ": ", why);
}

float bf16_to_float(uint16_t bits) {
    const uint32_t wide = uint32_t{bits} << 16;
    float value;
    std::memcpy(&value, &wide, sizeof value);
    return value;
}

}  // namespace gmmfr
