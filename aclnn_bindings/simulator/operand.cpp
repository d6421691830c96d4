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

Failure Operand::open(const Launch& launch, Argument argument) {
    layout_ = &(*launch.plan)[argument];
    if (layout_->view.has_zero()) return {};
    const char* name = argument_name(argument);
    const int64_t bits = bits_of(layout_->dtype);
    int64_t lowest = 0, highest = 0, first_bit = 0, low_bit = 0, end_bit = 0;
    const bool overflow = !element_range(*layout_, &lowest, &highest) ||
                          __builtin_mul_overflow(layout_->offset, bits, &first_bit) ||
                          __builtin_mul_overflow(lowest, bits, &low_bit) ||
                          __builtin_mul_overflow(highest + 1, bits, &end_bit);
    if (overflow) return failure(kAddressError, name, ": strides or offset leave the 64-bit range");
    auto* storage = static_cast<std::byte*>(launch.addresses[argument]);
    if (storage == nullptr) return failure(kAddressError, name, ": its data address is NULL");
    base_ = reinterpret_cast<std::byte*>(reinterpret_cast<uintptr_t>(storage) +
                                         static_cast<uintptr_t>(first_bit >> 3));
    const int64_t low_byte = low_bit >> 3, end_byte = (end_bit + 7) >> 3;
    const auto* start = reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(base_) +
                                                      static_cast<uintptr_t>(low_byte));
    if (checking()) {
        if (Failure failed = check_descriptor(name, *layout_, storage, lowest, highest)) return failed;
    }
    std::string why;
    block_ = device_memory().pin(start, static_cast<size_t>(end_byte - low_byte), &why);
    if (block_) return {};
    return failure(kAddressError, name, " with shape ", layout_->view.str(), " and dtype ",
                   dtype_name(layout_->dtype), ": ", why);
}

float bf16_to_float(uint16_t bits) {
    const uint32_t wide = uint32_t{bits} << 16;
    float value;
    std::memcpy(&value, &wide, sizeof value);
    return value;
}

}  // namespace gmmfr
