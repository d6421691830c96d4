#include "isa.hpp"

#if defined(__x86_64__)

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif

namespace gmmfr::isa_avx2 {
#define GMMFR_LANES 8
#define GMMFR_STRIP_ROWS 6
#include "isa_body.hpp"
}  // namespace gmmfr::isa_avx2

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

namespace gmmfr {

const Kernels* avx2_kernels() {
    using namespace isa_avx2;
    static constexpr Kernels kTable{"avx2", kStripColumns, kStripRows, kLanes,
                                    decode, unpack_rows,   transpose,  multiply};
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? &kTable : nullptr;
}

}  // namespace gmmfr

#else

const gmmfr::Kernels* gmmfr::avx2_kernels() {
    return nullptr;
}

#endif
