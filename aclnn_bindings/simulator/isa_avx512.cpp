#include "isa.hpp"

#if defined(__x86_64__)

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma"))), \
                             apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")
#endif

namespace gmmfr::isa_avx512 {
#define GMMFR_LANES 16
#define GMMFR_STRIP_ROWS 12
#include "isa_body.hpp"
}  // namespace gmmfr::isa_avx512

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

namespace gmmfr {

const Kernels* avx512_kernels() {
    using namespace isa_avx512;
    static constexpr Kernels kTable{"avx512", kStripColumns, kStripRows, kLanes,
                                    decode,   unpack_rows,   transpose,  multiply};
    const bool here = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("fma");
    return here ? &kTable : nullptr;
}

}  // namespace gmmfr

#else

const gmmfr::Kernels* gmmfr::avx512_kernels() {
    return nullptr;
}

#endif
