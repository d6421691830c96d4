#include <cstdio>
#include <cstdlib>
#include <string>

#include "isa.hpp"

namespace gmmfr::isa_baseline {
#define GMMFR_LANES 4
#if defined(__x86_64__)
#define GMMFR_STRIP_ROWS 6
#else
#define GMMFR_STRIP_ROWS 12
#endif
#include "isa_body.hpp"
}  // namespace gmmfr::isa_baseline

namespace gmmfr {
namespace {

const Kernels& choose() {
    const Kernels* sets[] = {avx512_kernels(), avx2_kernels(), baseline_kernels()};
    const char* wanted = std::getenv("GMMFR_SIM_ISA");
    for (const Kernels* set : sets) {
        if (set != nullptr && (wanted == nullptr || *wanted == '\0' || std::string(wanted) == set->name)) return *set;
    }
    std::fprintf(stderr, "GMMFR_SIM_ISA: expected avx512, avx2 or baseline as this machine has, got \"%s\"\n", wanted);
    std::abort();
}

}  // namespace

const Kernels* baseline_kernels() {
    using namespace isa_baseline;
    static constexpr Kernels kTable{"baseline", kStripColumns, kStripRows, kLanes,
                                    decode,     unpack_rows,   transpose,  multiply};
    return &kTable;
}

const Kernels& kernels() {
    static const Kernels& chosen = choose();
    return chosen;
}

}  // namespace gmmfr
