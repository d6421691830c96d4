// Ascend 950, full MX (and the FP8 per-token mode behind it): the 950 checker's groups in order, then tiling.
#include "checks.hpp"

namespace gmmfr {
namespace {

constexpr int64_t kMostExperts = 1024;
constexpr int64_t kScaleBlock = 64;

enum class Mode { mx, per_token };

struct Extents {
    int64_t m, k, e, x2_k, n, rows;
};

Extents extents_of(const Call& call, bool transposed) {
    const Dims& x2 = call[kX2].view;
    return {call[kX1].view[0],      call[kX1].view[1],      x2[0],
            x2[transposed ? 2 : 1], x2[transposed ? 1 : 2], call[kOut].view[0]};
}

Failure find_mode(const Call& call, Mode* mode) {  // group 0
    const aclDataType dtype = call[kScale].dtype;
    *mode = dtype == ACL_FLOAT8_E8M0 ? Mode::mx : Mode::per_token;
    if (dtype == ACL_FLOAT8_E8M0 || dtype == ACL_FLOAT || dtype == ACL_BF16) return {};
    return invalid("scale dtype: expected FLOAT8_E8M0, got ", dtype_name(dtype));
}

Failure check_offset(const Call& call) {  // group 1, the caller turns its status into this one
    if (!call.has(kOffset)) return {};
    return failure(ACLNN_ERR_PARAM_NULLPTR, "offset: expected NULL on ", call.soc->name, ", got a tensor");
}

Failure check_kinds(const Call& call, Mode mode) {
    const aclDataType x1 = call[kX1].dtype, x2 = call[kX2].dtype;
    const bool nz = call[kX2].format == ACL_FORMAT_FRACTAL_NZ;
    if (is_fp4(x1) != is_fp4(x2)) {
        return invalid("x1 and x2 dtype: expected both FP8 or both FLOAT4_E2M1, got ", dtype_name(x1), " and ",
                       dtype_name(x2));
    }
    const bool both_e4m3 = x1 == ACL_FLOAT8_E4M3FN && x2 == ACL_FLOAT8_E4M3FN;
    if (nz && !is_fp4(x1) && !both_e4m3) {
        return invalid("x1 and x2 dtype: expected FLOAT8_E4M3FN for both with a FRACTAL_NZ x2, got ", dtype_name(x1),
                       " and ", dtype_name(x2));
    }
    if (mode == Mode::per_token && !(nz && both_e4m3)) {
        return invalid("scale dtype: expected FLOAT8_E8M0, got ", dtype_name(call[kScale].dtype));
    }
    return {};
}

Failure check_dtypes(const Call& call, Mode mode) {  // group 2
    const bool mx = mode == Mode::mx;
    const std::pair<Argument, aclDataType> expected[] = {{kPertokenScale, mx ? ACL_FLOAT8_E8M0 : ACL_FLOAT},
                                                         {kBias, ACL_BF16},
                                                         {kGroupList, ACL_INT64},
                                                         {kSharedInput, ACL_BF16},
                                                         {kOut, ACL_FLOAT},
                                                         {kRowIndex, ACL_INT64},
                                                         {kLogit, ACL_FLOAT}};
    for (const auto& [argument, dtype] : expected) {
        if (Failure failed = require_dtype(call, argument, dtype)) return failed;
    }
    return check_kinds(call, mode);
}

Failure check_ranks(const Call& call, Mode mode) {  // group 3
    const bool mx = mode == Mode::mx;
    const std::pair<Argument, int> expected[] = {
        {kX1, 2},       {kX2, 3},  {kScale, mx ? 4 : 3},         {kGroupList, 1}, {kLogit, 1},
        {kRowIndex, 1}, {kOut, 2}, {kPertokenScale, mx ? 3 : 1}, {kBias, 2},      {kSharedInput, 2}};
    for (const auto& [argument, rank] : expected) {
        if (Failure failed = require_rank(call, argument, rank)) return failed;
    }
    return {};
}

Failure check_attributes(const Call& call) {  // group 4
    const Attributes& attributes = call.attributes;
    if (attributes.group_list_type != 0 && attributes.group_list_type != 1) {
        return invalid("groupListType: expected 0 (running totals) or 1 (counts), got ", attributes.group_list_type);
    }
    const int64_t rows = call[kOut].view[0];
    if (attributes.shared_input_offset < 0 || attributes.shared_input_offset > rows) {
        return invalid("sharedInputOffset: expected 0 to ", rows, " (rows of out), got ",
                       attributes.shared_input_offset);
    }
    if (attributes.transpose_x1) {
        return invalid("x1 strides: ", call[kX1].strides.str(), " for shape ", call[kX1].view.str(),
                       " is a transposed x1, which is not supported; give a contiguous x1 compact strides");
    }
    return {};
}

Failure check_extents(const Call& call, const Extents& size) {  // group 5
    if (size.k != size.x2_k) {
        return invalid("k: x1 ", call[kX1].view.str(), " has ", size.k, ", x2 has ", size.x2_k, "; expected the same");
    }
    if (call[kGroupList].view[0] != size.e) {
        return invalid("groupList length: expected e = ", size.e, " (axis 0 of x2), got ", call[kGroupList].view[0]);
    }
    if (size.e > kMostExperts) return invalid("e: expected at most ", kMostExperts, ", got ", size.e);
    if (size.k <= 0) return invalid("k: expected more than 0, got ", size.k);
    return {};
}

Failure check_shapes(const Call& call, const Extents& size, bool transposed, Mode mode) {  // groups 6 and 7
    const int64_t blocks = ceil_div(size.k, kScaleBlock);
    const Dims scale = mode == Mode::per_token ? Dims{size.e, 1, size.n}
                       : transposed            ? Dims{size.e, size.n, blocks, 2}
                                               : Dims{size.e, blocks, size.n, 2};
    const Dims x2 = transposed ? Dims{size.e, size.n, size.k} : Dims{size.e, size.k, size.n};
    const Dims pertoken = mode == Mode::per_token ? Dims{size.m} : Dims{size.m, blocks, 2};
    const std::string hint = transposed ? "x2 is transposed, so the scale must be too"
                                        : "x2 is not transposed, so the scale must not be either";
    return first_failure([&] { return require_shape(call, kX1, Dims{size.m, size.k}, ""); },
                         [&] { return require_shape(call, kScale, scale, mode == Mode::mx ? hint : ""); },
                         [&] { return require_shape(call, kX2, x2, ""); },
                         [&] { return require_shape(call, kGroupList, Dims{size.e}, ""); },
                         [&] { return require_shape(call, kLogit, Dims{size.m}, ""); },
                         [&] { return require_shape(call, kRowIndex, Dims{size.m}, ""); },
                         [&] { return require_shape(call, kOut, Dims{size.rows, size.n}, ""); },
                         [&] { return require_shape(call, kPertokenScale, pertoken, ""); },
                         [&] { return require_shape(call, kBias, Dims{size.e, size.n}, ""); });
}

Failure check_shared_input(const Call& call, const Extents& size) {  // group 7
    if (!call.has(kSharedInput)) return {};
    const Dims& shared = call[kSharedInput].view;
    if (shared[0] > size.rows || call.attributes.shared_input_offset > size.rows - shared[0]) {
        return invalid("sharedInput rows: ", shared[0], " from row ", call.attributes.shared_input_offset,
                       " on; expected them inside the ", size.rows, " rows of out");
    }
    return require_shape(call, kSharedInput, Dims{shared[0], size.n}, "");
}

Failure check_fp4(const Call& call, const Extents& size, bool transposed) {  // group 8
    if (!is_fp4(call[kX1].dtype)) return {};
    if (size.k % 2 != 0 || size.k == 2) return invalid("k with FLOAT4_E2M1: expected even and not 2, got ", size.k);
    if (!transposed && size.n % 2 != 0) {
        return invalid("n with FLOAT4_E2M1 and x2 not transposed: expected even, got ", size.n);
    }
    return {};
}

Failure check_formats(const Call& call) {  // group 9
    if (call[kX2].format != ACL_FORMAT_ND && call[kX2].format != ACL_FORMAT_FRACTAL_NZ) {
        return invalid("x2 format: expected ND or FRACTAL_NZ, got ", format_name(call[kX2].format));
    }
    for (const Argument argument :
         {kX1, kPertokenScale, kScale, kGroupList, kLogit, kRowIndex, kOut, kBias, kSharedInput}) {
        if (call.has(argument) && is_private_format(call[argument].format)) {
            return invalid(argument_name(argument), " format: expected ND, got ", format_name(call[argument].format));
        }
    }
    return {};
}

Failure check_tiling(const Call& call, const Extents& size) {
    if (size.rows > size.m) {
        return tiling_refuses("out rows: expected at most m = ", size.m, ", got ", size.rows);
    }
    if (call[kX1].view.has_zero() || call[kX2].view.has_zero()) {
        return tiling_refuses("x1 and x2: expected no empty tensor, got ", call[kX1].view.str(), " and ",
                              call[kX2].view.str());
    }
    if (call[kX2].format != ACL_FORMAT_FRACTAL_NZ) return {};
    const Dims& storage = call[kX2].storage;
    const int64_t last = is_fp4(call[kX2].dtype) ? 64 : 32;
    if (size.n == 1 || size.k == 1 || storage.rank() != 5 || storage[-2] != 16 || storage[-1] != last) {
        return tiling_refuses("FRACTAL_NZ x2: expected n and k above 1 and a storage shape (e, n1, k1, 16, ", last,
                              "), got n = ", size.n, ", k = ", size.k, ", storage ", storage.str());
    }
    return {};
}

void fill(const Call& call, const Extents& size, Mode mode, Plan* plan) {
    plan->m = size.m;
    plan->k = size.k;
    plan->n = size.n;
    plan->e = size.e;
    plan->rows = size.rows;
    plan->path = Path::mx;
    if (mode == Mode::per_token) {
        plan->unsupported = "FP8 with a per-token FLOAT scale is not simulated; this operator documents MX scales only";
    } else if (call[kX2].format == ACL_FORMAT_FRACTAL_NZ) {
        plan->unsupported = "x2 format FRACTAL_NZ is not simulated; pass x2 as ND";
    }
    if (!plan->unsupported.empty()) plan->path = Path::unsupported;
}

}  // namespace

Failure check_ascend_950(const Call& call, Plan* plan) {
    const bool transposed = plan->x2_transposed;
    Mode mode = Mode::mx;
    Failure failed = first_failure([&] { return find_mode(call, &mode); },    // 0
                                   [&] { return check_offset(call); },        // 1
                                   [&] { return check_dtypes(call, mode); },  // 2
                                   [&] { return check_ranks(call, mode); });  // 3
    if (failed) return failed;
    const Extents size = extents_of(call, transposed);
    failed = first_failure([&] { return check_attributes(call); },                      // 4
                           [&] { return check_extents(call, size); },                   // 5
                           [&] { return check_shapes(call, size, transposed, mode); },  // 6, 7
                           [&] { return check_shared_input(call, size); },              // 7
                           [&] { return check_fp4(call, size, transposed); },           // 8
                           [&] { return check_formats(call); },                         // 9
                           [&] { return check_tiling(call, size); });
    if (failed) return failed;
    fill(call, size, mode, plan);
    return {};
}

}  // namespace gmmfr
