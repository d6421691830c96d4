// Exported: the operator's two phases.
#include "aclnnop/aclnn_grouped_matmul_finalize_routing_v3.h"

#include "checks.hpp"
#include "executor.hpp"
#include "faults.hpp"
#include "kernel.hpp"
#include "ordering.hpp"
#include "runtime.hpp"
#include "trace.hpp"

using namespace gmmfr;

namespace {

constexpr const char* kPhase1 = "aclnnGroupedMatmulFinalizeRoutingV3GetWorkspaceSize";
constexpr const char* kPhase2 = "aclnnGroupedMatmulFinalizeRoutingV3";

bool deterministic_mode() {
    int64_t level = 0;
    if (runtime().parameters.get(ACL_OPT_DETERMINISTIC, &level) && level != 0) return true;
    const auto context = current_context();
    return context && context->parameters.get(ACL_OPT_DETERMINISTIC, &level) && level != 0;
}

// Looks every handle up and takes a copy of its metadata.
Failure receive(const std::array<const aclTensor*, kArguments>& handles, const aclIntArray* tuning, Call* call) {
    for (int argument = 0; argument < kArguments; ++argument) {
        call->handles[argument] = handles[argument];
        if (handles[argument] == nullptr) continue;
        call->tensors[argument] = tensors().find(handles[argument]);
        if (!call->tensors[argument]) {
            return invalid(argument_name(static_cast<Argument>(argument)), ": ", tensors().explain(handles[argument]));
        }
        call->layouts[argument] = call->tensors[argument]->snapshot();
    }
    if (tuning == nullptr) return {};
    call->tuning_config = int_arrays().find(tuning);
    return call->tuning_config ? Failure{} : invalid("tuningConfig: ", int_arrays().explain(tuning));
}

void keep_layouts(const Call& call, Plan* plan) {
    plan->soc = call.soc;
    plan->layouts = call.layouts;
    plan->attributes = call.attributes;
    plan->deterministic = call.deterministic;
    for (int argument = 0; argument < kArguments; ++argument) {
        plan->present[argument] = call.tensors[argument] != nullptr;
    }
}

// Ascend 950: nothing to do and nothing written when m or n is 0.
bool nothing_to_do(const Call& call, const Plan& plan) {
    if (!call.soc->is_950()) return false;
    const Layout& x1 = call[kX1];
    const int rows = x1.view.rank() == 2 && x1.looks_transposed() ? 1 : 0;  // it is read with its two dims swapped
    return (x1.view.rank() > 0 && x1.view[rows] == 0) || call[kX2].view[plan.x2_transposed ? -2 : -1] == 0;
}

Failure make_plan(Call& call, Plan* plan) {
    if (Failure failed = check_entry(call)) return failed;
    if (Failure failed = preprocess(call, plan)) return failed;
    if (nothing_to_do(call, *plan)) {
        keep_layouts(call, plan);
        return {};
    }
    Failure failed;
    if (!call.soc->is_950()) {
        failed = check_atlas_a2_a3(call, plan);
    } else if (call[kX1].dtype == ACL_FLOAT8_E4M3FN && call[kX2].dtype == ACL_FLOAT4_E2M1) {
        failed = check_ascend_950_mxa8w4(call, plan);
    } else {
        failed = check_ascend_950(call, plan);
    }
    if (failed) return failed;
    keep_layouts(call, plan);
    set_workspace(call, plan);
    return {};
}

int phase1(Call& call, uint64_t* workspace_size, aclOpExecutor** executor) {
    auto made = std::make_shared<Executor>();
    if (plan_cache_enabled()) {  // E3
        const auto cache = thread_plan_cache();
        made->key = plan_key(call);
        made->cache = cache;
        made->plan = cache->find(made->key);
        made->cache_hit = made->plan != nullptr;
    }
    count_phase1(made->cache_hit);
    if (!made->plan) {
        auto plan = std::make_shared<Plan>();
        if (Failure failed = make_plan(call, plan.get())) return report(failed);
        made->plan = std::move(plan);
    }
    made->tensors = call.tensors;
    made->handles = call.handles;
    *workspace_size = made->plan->workspace;
    *executor = static_cast<aclOpExecutor*>(executors().add(std::move(made)));
    return ACLNN_SUCCESS;
}

Failure check_workspace(const Plan& plan, uint64_t size) {
    if (size >= plan.workspace) return {};
    return invalid("workspaceSize: expected at least ", plan.workspace, " as phase 1 told, got ", size);
}

// Addresses are read now: aclSetTensorAddr and its kin may have changed them since phase 1.
Failure gather_addresses(const Executor& executor, Launch* launch) {
    for (int argument = 0; argument < kArguments; ++argument) {
        if (!launch->plan->present[argument] || launch->plan->path == Path::none) continue;
        const auto& tensor = executor.tensors[argument];
        if (!tensor || tensors().find(executor.handles[argument]) != tensor) {
            return failure(ACLNN_ERR_INNER, argument_name(static_cast<Argument>(argument)),
                           ": its aclTensor was destroyed between phase 1 and phase 2");
        }
        launch->addresses[argument] = tensor->address.load();
    }
    return {};
}

// An old-key cache keeps no call with an offset: its tensor is not in the recorded list.
bool cacheable(const Executor& executor) {
    if (executor.cache_hit || executor.key.empty()) return false;
    return !(old_cache_key() && executor.tensors[kOffset]);
}

int phase2(void* workspace, uint64_t workspace_size, aclOpExecutor* handle, aclrtStream stream_handle) {
    if (handle == nullptr) return fail(ACLNN_ERR_PARAM_NULLPTR, "executor is NULL");
    auto executor = executors().find(handle);
    if (!executor) return fail(ACLNN_ERR_INNER, executors().explain(handle));
    const bool no_workspace = workspace == nullptr && workspace_size > 0;
    if (no_workspace || !executor->repeatable.load()) executor = executors().remove(handle);
    if (!executor) return fail(ACLNN_ERR_INNER, executors().explain(handle));
    if (no_workspace) {
        return fail(ACLNN_ERR_PARAM_NULLPTR, "workspace is NULL, workspaceSize is ", workspace_size,
                    "; the executor is destroyed");
    }
    if (const int code = injected_fault(kPhase2)) return fail(code, kFaultText);
    Launch launch;
    launch.plan = executor->plan;
    launch.workspace = workspace;
    launch.workspace_size = workspace_size;
    launch.saturate = saturation_mode();
    if (Failure failed = check_workspace(*launch.plan, workspace_size)) return report(failed);
    if (launch.plan->path == Path::unsupported) return fail(ACLNN_ERR_INNER, launch.plan->unsupported);
    if (Failure failed = gather_addresses(*executor, &launch)) return report(failed);
    std::shared_ptr<Stream> stream;
    if (Failure failed = find_stream(stream_handle, &stream)) {
        return fail(ACLNN_ERR_RUNTIME_ERROR, "stream: ", failed.message);
    }
    if (Failure failed = check_overlap(launch)) return fail(ACLNN_ERR_INNER, failed.message);
    if (Failure failed = order_work(*stream, accesses_of(launch))) return fail(ACLNN_ERR_INNER, failed.message);
    if (!stream->submit({[launch = std::move(launch)] { return run_launch(launch); }})) {
        return fail(ACLNN_ERR_RUNTIME_ERROR, "stream: it is being destroyed");
    }
    if (cacheable(*executor)) {
        if (const auto cache = executor->cache.lock()) cache->put(executor->key, executor->plan);
    }
    return ACLNN_SUCCESS;
}

}  // namespace

GMMFR_EXPORT aclnnStatus aclnnGroupedMatmulFinalizeRoutingV3GetWorkspaceSize(
    const aclTensor* x1, aclTensor* x2, const aclTensor* scaleOptional, const aclTensor* biasOptional,
    const aclTensor* offsetOptional, const aclTensor* antiquantScaleOptional, const aclTensor* antiquantOffsetOptional,
    const aclTensor* pertokenScaleOptional, const aclTensor* groupListOptional, const aclTensor* sharedInputOptional,
    const aclTensor* logitOptional, const aclTensor* rowIndexOptional, int64_t dtype, float sharedInputWeight,
    int64_t sharedInputOffset, bool transposeX1, bool transposeX2, int64_t groupListType,
    const aclIntArray* tuningConfigOptional, aclTensor* out, uint64_t* workspaceSize, aclOpExecutor** executor) {
    return entry(kPhase1, [&] {
        if (workspaceSize == nullptr || executor == nullptr) {  // E1
            return fail(ACLNN_ERR_PARAM_NULLPTR, workspaceSize == nullptr ? "workspaceSize" : "executor", " is NULL");
        }
        if (out == nullptr) return ACLNN_ERR_PARAM_NULLPTR;  // E2: the vendor has no message here
        Call call;
        call.soc = &current_soc();
        call.attributes = {dtype, sharedInputWeight, sharedInputOffset, transposeX1, transposeX2, groupListType};
        call.deterministic = deterministic_mode();
        const Failure lost = receive(
            {x1, x2, scaleOptional, biasOptional, offsetOptional, antiquantScaleOptional, antiquantOffsetOptional,
             pertokenScaleOptional, groupListOptional, sharedInputOptional, logitOptional, rowIndexOptional, out},
            tuningConfigOptional, &call);
        if (lost) return report(lost);
        trace_call(call);
        return phase1(call, workspaceSize, executor);
    });
}

GMMFR_EXPORT aclnnStatus aclnnGroupedMatmulFinalizeRoutingV3(void* workspace, uint64_t workspaceSize,
                                                             aclOpExecutor* executor, aclrtStream stream) {
    // a failure on order comes after the executor is taken, as every failure of phase 2 does
    return entry(kPhase2, Faults::inside, [&] { return phase2(workspace, workspaceSize, executor, stream); });
}
