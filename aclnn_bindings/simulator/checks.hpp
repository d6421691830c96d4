// Phase 1 of aclnnGroupedMatmulFinalizeRoutingV3: every check in the vendor's order, one file per family.
#pragma once

#include "call.hpp"

namespace gmmfr {

// E1..E10 and what follows; rewrites x2's descriptor on Atlas A2/A3.
Failure check_required(const Call& call);
Failure check_entry(Call& call);
Failure preprocess(Call& call, Plan* plan);
Failure check_atlas_a2_a3(const Call& call, Plan* plan);
Failure check_ascend_950(const Call& call, Plan* plan);
Failure check_ascend_950_mxa8w4(const Call& call, Plan* plan);

void set_workspace(const Call& call, Plan* plan);

// --- building blocks, each with the message that its failure gives
Failure require_dtype(const Call& call, Argument argument, aclDataType expected);
Failure require_rank(const Call& call, Argument argument, int expected);
Failure require_shape(const Call& call, Argument argument, const Dims& expected, const std::string& hint);

template <class... Parts>
Failure invalid(const Parts&... parts) {
    return failure(ACLNN_ERR_PARAM_INVALID, parts...);
}

template <class... Parts>
Failure tiling_refuses(const Parts&... parts) {
    return failure(ACLNN_ERR_INNER_NULLPTR, parts...);
}

inline bool is_mx_dtype(aclDataType dtype) {
    return dtype == ACL_FLOAT8_E5M2 || dtype == ACL_FLOAT8_E4M3FN || dtype == ACL_FLOAT4_E2M1;
}
inline bool is_fp4(aclDataType dtype) {
    return dtype == ACL_FLOAT4_E2M1;
}
inline int64_t ceil_div(int64_t value, int64_t unit) {
    return value / unit + (value % unit != 0 ? 1 : 0);
}

// Runs checks one after the other until one fails: first_failure([&] { return ...; }, ...).
inline Failure first_failure() {
    return {};
}
template <class Check, class... Rest>
Failure first_failure(const Check& check, const Rest&... rest) {
    if (Failure failed = check()) return failed;
    return first_failure(rest...);
}

}  // namespace gmmfr
