// What an aclTensor or aclIntArray handle stands for.
#pragma once

#include <array>
#include <atomic>
#include <string>
#include <vector>

#include "handles.hpp"

namespace gmmfr {

constexpr uint64_t kMostDims = 25;

// A short list of extents or strides.
class Dims {
public:
    Dims() = default;
    Dims(std::initializer_list<int64_t> values) {
        for (const int64_t value : values) push(value);
    }
    Dims(const int64_t* values, uint64_t count) : count_(static_cast<int>(count)) {
        std::copy(values, values + count, values_.begin());
    }

    int rank() const { return count_; }
    // Negative positions count from the end.
    int64_t operator[](int at) const { return values_[at < 0 ? count_ + at : at]; }
    int64_t& operator[](int at) { return values_[at < 0 ? count_ + at : at]; }
    const int64_t* begin() const { return values_.data(); }
    const int64_t* end() const { return values_.data() + count_; }
    void push(int64_t value) { values_[count_++] = value; }

    bool operator==(const Dims& other) const {
        return count_ == other.count_ && std::equal(begin(), end(), other.begin());
    }
    bool operator!=(const Dims& other) const { return !(*this == other); }
    bool has_zero() const;
    std::string str() const;

private:
    std::array<int64_t, kMostDims> values_{};
    int count_ = 0;
};

Dims contiguous_strides(const Dims& view);

// Metadata of a descriptor. strides and offset count elements (4-bit types: logical ones).
struct Layout {
    Dims view;
    Dims strides;
    Dims storage;
    int64_t offset = 0;
    aclDataType dtype = ACL_DT_UNDEFINED;
    aclFormat format = ACL_FORMAT_UNDEFINED;

    bool contiguous() const;
    // The last two dims look like a transposed view of a contiguous tensor, by the vendor's test.
    bool looks_transposed() const;
    void swap_last_two();
    uint64_t elements() const;
    uint64_t bytes() const;
};

struct Tensor {
    Layout layout;
    std::atomic<void*> address{nullptr};
    std::mutex mutex;  // guards layout: phase 1 on A2/A3 rewrites the one of x2

    Layout snapshot() {
        std::lock_guard<std::mutex> lock(mutex);
        return layout;
    }
};

using IntArray = std::vector<int64_t>;

// Bits of one element, 0 for a type that this library does not know.
int bits_of(aclDataType dtype);
const char* dtype_name(aclDataType dtype);
std::string format_name(aclFormat format);
// Formats with a layout of their own, as the vendor's IsPrivateFormat lists them.
bool is_private_format(aclFormat format);
bool is_nz(aclFormat format);

Registry<Tensor>& tensors();
Registry<IntArray>& int_arrays();

}  // namespace gmmfr
