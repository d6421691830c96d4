// Ascend 950, x1 FLOAT8_E4M3FN with x2 FLOAT4_E2M1: reachable through V3, checked as the vendor does.
#include "checks.hpp"

namespace gmmfr {
namespace {

constexpr int64_t kMostExperts = 1024;
constexpr int64_t kScaleBlock = 64;
constexpr int64_t kMultiple = 32;

struct Extents {
    int64_t m, k, e, n, x2_k, rows;
};

Failure check_offset(const Call& call) {  // (1)
    if (!call.has(kOffset)) return {};
    return failure(ACLNN_ERR_PARAM_NULLPTR, "offset: expected NULL on ", call.soc->name, ", got a tensor");
}

Failure check_dtypes(const Call& call) {  // (2)
    constexpr std::pair<Argument, aclDataType> kExpected[] = {
        {kScale, ACL_FLOAT8_E8M0}, {kRowIndex, ACL_INT64},  {kPertokenScale, ACL_FLOAT8_E8M0},
        {kBias, ACL_BF16},         {kGroupList, ACL_INT64}, {kSharedInput, ACL_BF16},
        {kLogit, ACL_FLOAT},       {kOut, ACL_FLOAT}};
    for (const auto& [argument, dtype] : kExpected) {
        if (Failure failed = require_dtype(call, argument, dtype)) return failed;
    }
    return {};
}

Failure check_transpose(const Call& call, const Plan& plan) {  // (3)
    if (call.attributes.transpose_x1) return invalid("x1: expected not transposed, its strides make it transposed");
    if (!plan.x2_transposed) {
        return invalid("transposeX2: expected true for FLOAT8_E4M3FN x1 with FLOAT4_E2M1 x2, got false");
    }
    return {};
}

Failure check_ranks(const Call& call) {  // (4)
    if (call[kX2].storage.rank() != 5) {
        return invalid("x2 storage rank: expected 5, got ", call[kX2].storage.rank());
    }
    constexpr std::pair<Argument, int> kExpected[] = {
        {kX1, 2},    {kX2, 3},       {kScale, 4}, {kPertokenScale, 3}, {kGroupList, 1},
        {kLogit, 1}, {kRowIndex, 1}, {kOut, 2},   {kBias, 2},          {kSharedInput, 2}};
    for (const auto& [argument, rank] : kExpected) {
        if (Failure failed = require_rank(call, argument, rank)) return failed;
    }
    return {};
}

Failure check_values(const Call& call, const Extents& size) {  // (5), (6)
    const Attributes& attributes = call.attributes;
    if (attributes.group_list_type != 0 && attributes.group_list_type != 1) {
        return invalid("groupListType: expected 0 or 1, got ", attributes.group_list_type);
    }
    if (attributes.shared_input_offset < 0 || attributes.shared_input_offset > size.rows) {
        return invalid("sharedInputOffset: expected 0 to ", size.rows, ", got ", attributes.shared_input_offset);
    }
    if (size.k != size.x2_k) return invalid("k: x1 has ", size.k, ", x2 has ", size.x2_k, "; expected the same");
    if (call[kGroupList].view[0] != size.e || size.e > kMostExperts) {
        return invalid("groupList length: expected e = ", size.e, ", at most ", kMostExperts, ", got ",
                       call[kGroupList].view[0]);
    }
    if (size.k <= 0 || size.k % kMultiple != 0 || size.n % kMultiple != 0) {
        return invalid("k and n: expected multiples of ", kMultiple, ", got k = ", size.k, ", n = ", size.n);
    }
    return {};
}

Failure check_shapes(const Call& call, const Extents& size) {  // (7)
    const int64_t blocks = ceil_div(size.k, kScaleBlock);
    const std::pair<Argument, Dims> expected[] = {{kX1, {size.m, size.k}},
                                                  {kX2, {size.e, size.n, size.k}},
                                                  {kScale, {size.e, size.n, blocks, 2}},
                                                  {kPertokenScale, {size.m, blocks, 2}},
                                                  {kLogit, {size.m}},
                                                  {kRowIndex, {size.m}},
                                                  {kOut, {size.rows, size.n}},
                                                  {kBias, {size.e, size.n}}};
    for (const auto& [argument, shape] : expected) {
        if (Failure failed = require_shape(call, argument, shape, "")) return failed;
    }
    if (!call.has(kSharedInput)) return {};
    const Dims& shared = call[kSharedInput].view;
    if (shared[0] > size.rows || call.attributes.shared_input_offset > size.rows - shared[0] || shared[1] != size.n) {
        return invalid("sharedInput: ", shared.str(), " from row ", call.attributes.shared_input_offset,
                       " on does not fit out ", call[kOut].view.str());
    }
    return {};
}

Failure check_formats(const Call& call) {  // (8)
    if (call[kX2].format != ACL_FORMAT_FRACTAL_NZ) {
        return invalid("x2 format: expected FRACTAL_NZ for FLOAT8_E4M3FN x1 with FLOAT4_E2M1 x2, got ",
                       format_name(call[kX2].format));
    }
    for (const Argument argument :
         {kX1, kScale, kPertokenScale, kGroupList, kLogit, kRowIndex, kOut, kBias, kSharedInput}) {
        if (call.has(argument) && is_private_format(call[argument].format)) {
            return invalid(argument_name(argument), " format: expected ND, got ", format_name(call[argument].format));
        }
    }
    return {};
}

}  // namespace

Failure check_ascend_950_mxa8w4(const Call& call, Plan* plan) {
    Failure failed = first_failure([&] { return check_offset(call); }, [&] { return check_dtypes(call); },
                                   [&] { return check_transpose(call, *plan); }, [&] { return check_ranks(call); });
    if (failed) return failed;
    const Dims& x2 = call[kX2].view;
    const Extents size{call[kX1].view[0], call[kX1].view[1], x2[0], x2[1], x2[2], call[kOut].view[0]};
    failed = first_failure([&] { return check_values(call, size); }, [&] { return check_shapes(call, size); },
                           [&] { return check_formats(call); });
    if (failed) return failed;
    if (size.e == 0) return tiling_refuses("x2: expected at least one expert, got ", x2.str());
    plan->m = size.m;
    plan->k = size.k;
    plan->n = size.n;
    plan->e = size.e;
    plan->rows = size.rows;
    plan->path = Path::unsupported;
    plan->unsupported = "FLOAT8_E4M3FN x1 with FLOAT4_E2M1 x2 (MxA8W4) is not simulated and not documented for V3";
    return {};
}

}  // namespace gmmfr
