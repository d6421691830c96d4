#include "kernel.hpp"

#include "kernels.hpp"
#include "runtime.hpp"

namespace gmmfr {
namespace {

Failure check_workspace_address(const Launch& launch) {
    if (launch.plan->workspace == 0) return {};
    std::string why;
    if (device_memory().pin(launch.workspace, launch.workspace_size, &why)) return {};
    return failure(kAddressError, "workspace: ", why);
}

Failure open_routing(const Launch& launch, Routing* routing) {
    Operand group_list, row_index, logit;
    if (Failure failed = group_list.open(launch, kGroupList)) return failed;
    if (Failure failed = row_index.open(launch, kRowIndex)) return failed;
    if (Failure failed = logit.open(launch, kLogit)) return failed;
    return read_routing(*launch.plan, group_list, row_index, logit, routing);
}

// Phase 1 of Atlas A2/A3 adds the offset and the rows in 64 bits: a sum that wraps passes there.
Failure check_shared_rows(const Plan& plan) {
    if (!plan.present[kSharedInput]) return {};
    const int64_t count = plan.layouts[kSharedInput].view[0], first = plan.attributes.shared_input_offset;
    if (first <= plan.rows - count) return {};
    return failure(kValueError, "sharedInputOffset ", first, ": expected at most ", plan.rows - count, " (out has ",
                   plan.rows, " rows, sharedInput ", count, ")");
}

Failure run_checked(const Launch& launch) {
    if (Failure failed = check_workspace_address(launch)) return failed;
    if (Failure failed = check_shared_rows(*launch.plan)) return failed;
    Routing routing;
    if (Failure failed = open_routing(launch, &routing)) return failed;
    return launch.plan->path == Path::w4a8 ? run_w4a8(launch, routing) : run_mx(launch, routing);
}

}  // namespace

Failure run_launch(const Launch& launch) {
    if (launch.plan->path == Path::none) return {};
    Failure failed = run_checked(launch);
    if (failed) {
        failed.message = "aclnnGroupedMatmulFinalizeRoutingV3: " + failed.message;
        return failed;
    }
    runtime().kernels_run.fetch_add(1, std::memory_order_relaxed);
    return {};
}

}  // namespace gmmfr
