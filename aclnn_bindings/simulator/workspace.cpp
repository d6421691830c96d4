// The workspace figure of phase 1.
#include "checks.hpp"

namespace gmmfr {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kSystemA2 = 20 * kMiB;
constexpr uint64_t kSystem950 = 16 * kMiB;
constexpr uint64_t kPartialsPerCore = 4 * 256 * 128 * 4 * 8;
constexpr uint64_t kRowSumBytes = 4;
constexpr uint64_t kUnit = 512;
constexpr uint64_t kKernelPad = 32;

uint64_t round_up(uint64_t bytes) {
    return (bytes + kUnit - 1) / kUnit * kUnit;
}

uint64_t kernel_bytes(const Call& call, const Plan& plan) {
    if (call.soc->is_950()) return kSystem950;
    uint64_t bytes = kSystemA2 + kPartialsPerCore * call.soc->cube_cores + kRowSumBytes * static_cast<uint64_t>(plan.m);
    if (call.deterministic) bytes += (call.soc->l2_bytes <= 96 * kMiB ? 64 : 96) * kMiB;
    return bytes;
}

}  // namespace

void set_workspace(const Call& call, Plan* plan) {
    uint64_t bytes = round_up(kernel_bytes(call, *plan) + kKernelPad);
    for (int argument = 0; argument < kArguments; ++argument) {  // copies that make tensors contiguous
        const Layout& layout = plan->layouts[argument];
        if (!plan->present[argument] || is_nz(layout.format)) continue;
        if (!layout.contiguous()) bytes += round_up(layout.bytes());
    }
    plan->workspace = bytes;
}

}  // namespace gmmfr
