#include "tensor.hpp"

namespace gmmfr {

bool Dims::has_zero() const {
    for (const int64_t value : *this) {
        if (value == 0) return true;
    }
    return false;
}

std::string Dims::str() const {
    std::string words = "(";
    for (int i = 0; i < count_; ++i) words += (i == 0 ? "" : ", ") + std::to_string(values_[i]);
    return words + (count_ == 1 ? ",)" : ")");
}

Dims contiguous_strides(const Dims& view) {
    Dims strides = view;
    uint64_t step = 1;
    for (int i = view.rank() - 1; i >= 0; --i) {
        strides[i] = static_cast<int64_t>(step);
        step *= static_cast<uint64_t>(view[i]);
    }
    return strides;
}

bool Layout::contiguous() const {
    uint64_t step = 1;
    for (int i = view.rank() - 1; i >= 0; --i) {
        if (view[i] != 1 && static_cast<uint64_t>(strides[i]) != step) return false;
        step *= static_cast<uint64_t>(view[i]);
    }
    return true;
}

bool Layout::looks_transposed() const {
    const int rank = view.rank();
    if (rank < 2 || rank > 6) return false;
    if (view[-1] == 1 && view[-2] == 1) return false;
    if (strides[-2] != 1 || strides[-1] != view[-2]) return false;
    uint64_t step = static_cast<uint64_t>(view[-1]) * static_cast<uint64_t>(view[-2]);
    for (int i = rank - 3; i >= 0; --i) {
        if (static_cast<uint64_t>(strides[i]) != step) return false;
        step *= static_cast<uint64_t>(view[i]);
    }
    return true;
}

void Layout::swap_last_two() {
    std::swap(view[-1], view[-2]);
    std::swap(strides[-1], strides[-2]);
}

uint64_t Layout::elements() const {
    uint64_t count = 1;
    for (const int64_t extent : view) count *= static_cast<uint64_t>(extent);
    return count;
}

uint64_t Layout::bytes() const {
    return (elements() * static_cast<uint64_t>(bits_of(dtype)) + 7) / 8;
}

int bits_of(aclDataType dtype) {
    if (dtype == ACL_INT4 || dtype == ACL_FLOAT4_E2M1 || dtype == ACL_FLOAT4_E1M2) return 4;
    return static_cast<int>(aclDataTypeSize(dtype)) * 8;
}

const char* dtype_name(aclDataType dtype) {
    switch (dtype) {
        case ACL_FLOAT: return "FLOAT";
        case ACL_FLOAT16: return "FLOAT16";
        case ACL_INT8: return "INT8";
        case ACL_INT32: return "INT32";
        case ACL_UINT8: return "UINT8";
        case ACL_INT16: return "INT16";
        case ACL_UINT16: return "UINT16";
        case ACL_UINT32: return "UINT32";
        case ACL_INT64: return "INT64";
        case ACL_UINT64: return "UINT64";
        case ACL_DOUBLE: return "DOUBLE";
        case ACL_BOOL: return "BOOL";
        case ACL_STRING: return "STRING";
        case ACL_COMPLEX64: return "COMPLEX64";
        case ACL_COMPLEX128: return "COMPLEX128";
        case ACL_BF16: return "BF16";
        case ACL_INT4: return "INT4";
        case ACL_UINT1: return "UINT1";
        case ACL_COMPLEX32: return "COMPLEX32";
        case ACL_HIFLOAT8: return "HIFLOAT8";
        case ACL_FLOAT8_E5M2: return "FLOAT8_E5M2";
        case ACL_FLOAT8_E4M3FN: return "FLOAT8_E4M3FN";
        case ACL_FLOAT8_E8M0: return "FLOAT8_E8M0";
        case ACL_FLOAT6_E3M2: return "FLOAT6_E3M2";
        case ACL_FLOAT6_E2M3: return "FLOAT6_E2M3";
        case ACL_FLOAT4_E2M1: return "FLOAT4_E2M1";
        case ACL_FLOAT4_E1M2: return "FLOAT4_E1M2";
        default: return "UNDEFINED";
    }
}

std::string format_name(aclFormat format) {
    switch (format) {
        case ACL_FORMAT_NCHW: return "NCHW";
        case ACL_FORMAT_NHWC: return "NHWC";
        case ACL_FORMAT_ND: return "ND";
        case ACL_FORMAT_FRACTAL_NZ: return "FRACTAL_NZ";
        case ACL_FORMAT_FRACTAL_NZ_C0_32: return "FRACTAL_NZ_C0_32";
        case ACL_FORMAT_NCL: return "NCL";
        case ACL_FORMAT_NCDHW: return "NCDHW";
        default: return text("format ", static_cast<int>(format));
    }
}

bool is_private_format(aclFormat format) {
    switch (format) {
        case ACL_FORMAT_NC1HWC0:
        case ACL_FORMAT_FRACTAL_Z:
        case ACL_FORMAT_NC1HWC0_C04:
        case ACL_FORMAT_FRACTAL_NZ:
        case ACL_FORMAT_NDC1HWC0:
        case ACL_FRACTAL_Z_3D:
        case ACL_FORMAT_FRACTAL_NZ_C0_16:
        case ACL_FORMAT_FRACTAL_NZ_C0_32:
        case ACL_FORMAT_FRACTAL_NZ_C0_2:
        case ACL_FORMAT_FRACTAL_NZ_C0_4:
        case ACL_FORMAT_FRACTAL_NZ_C0_8: return true;
        default: return false;
    }
}

bool is_nz(aclFormat format) {
    return format == ACL_FORMAT_FRACTAL_NZ || format == ACL_FORMAT_FRACTAL_NZ_C0_32;
}

Registry<Tensor>& tensors() {
    static auto* registry = new Registry<Tensor>(HandleKind::tensor);
    return *registry;
}

Registry<IntArray>& int_arrays() {
    static auto* registry = new Registry<IntArray>(HandleKind::int_array);
    return *registry;
}

}  // namespace gmmfr
