// Atlas A2/A3, W4A8: the order of CheckParams, then what shape inference and tiling add. Identifiers a1..e1
// number the rules in that order.
#include "checks.hpp"

namespace gmmfr {
namespace {

constexpr int64_t kInnerMultiple = 64;
constexpr int64_t kColumnsMultiple = 8;
constexpr int64_t kColumnsMultipleNz = 64;
constexpr int64_t kMostInner = 18432;  // one int8 row must fit on the chip
constexpr int64_t kNzRows = 16;

struct Extents {
    int64_t m, k, e, x2_k, n, rows;
    int64_t tuning;  // what the tuning hint may not exceed
};

// m and k are the last two axes of x1, more of them are refused at the very end (check_inferred_ranks). The tuning
// hint alone is held against axis 0, and that after a view that looks transposed was turned: then it is k.
Extents extents_of(const Call& call) {
    const Dims& x1 = call[kX1].view;
    const bool turned = call.attributes.transpose_x1 && x1.rank() == 2;
    return {x1[-2],
            x1[-1],
            call[kX2].view[0],
            call[kX2].view[-2],
            call[kX2].view[-1],
            call[kOut].view[0],
            turned ? x1[1] : x1[0]};
}

Failure check_dtypes(const Call& call) {  // a1
    constexpr std::pair<Argument, aclDataType> kExpected[] = {{kX1, ACL_INT8},
                                                              {kX2, ACL_INT4},
                                                              {kScale, ACL_INT64},
                                                              {kRowIndex, ACL_INT64},
                                                              {kOffset, ACL_FLOAT},
                                                              {kBias, ACL_FLOAT},
                                                              {kPertokenScale, ACL_FLOAT},
                                                              {kGroupList, ACL_INT64},
                                                              {kSharedInput, ACL_BF16},
                                                              {kLogit, ACL_FLOAT},
                                                              {kOut, ACL_FLOAT}};
    for (const auto& [argument, dtype] : kExpected) {
        if (Failure failed = require_dtype(call, argument, dtype)) return failed;
    }
    return {};
}

Failure check_x1_x2(const Call& call, const Extents& size) {
    const bool nz = call[kX2].format == ACL_FORMAT_FRACTAL_NZ;
    if (nz) {  // b2
        const int64_t padded = ceil_div(size.x2_k, kNzRows) * kNzRows;
        if (call[kX2].storage[-3] * kNzRows != padded) {
            return invalid("x2 storage shape: expected ", padded / kNzRows, " at position -3 for k = ", size.x2_k,
                           ", got ", call[kX2].storage.str());
        }
    }
    if (size.k != size.x2_k) {  // b3
        return invalid("k: x1 ", call[kX1].view.str(), " has ", size.k, ", x2 ", call[kX2].view.str(), " has ",
                       size.x2_k, "; expected the same");
    }
    const int64_t multiple = nz ? kColumnsMultipleNz : kColumnsMultiple;
    if (size.n % multiple != 0 || size.k % kInnerMultiple != 0 || size.n <= 64 || size.k <= 128) {  // b4
        return invalid("n and k: expected n > 64 and a multiple of ", multiple, ", k > 128 and a multiple of ",
                       kInnerMultiple, ", got n = ", size.n, ", k = ", size.k);
    }
    return {};
}

Failure check_out(const Call& call, const Extents& size) {
    if (Failure failed = require_rank(call, kOut, 2)) return failed;  // b5
    if (size.rows < 0 || size.rows > size.m) {                        // b6, b18
        return invalid("out rows: expected 0 to m = ", size.m, ", got ", size.rows);
    }
    if (call[kOut].view[1] != size.n) {  // b7
        return invalid("out columns: expected n = ", size.n, ", got ", call[kOut].view[1]);
    }
    return {};
}

Failure check_attributes(const Call& call) {
    if (call.attributes.shared_input_offset < 0) {  // b8
        return invalid("sharedInputOffset: expected 0 or more, got ", call.attributes.shared_input_offset);
    }
    if (call.attributes.group_list_type != 0 && call.attributes.group_list_type != 1) {  // b9
        return invalid("groupListType: expected 0 (running totals) or 1 (counts), got ",
                       call.attributes.group_list_type);
    }
    return {};
}

Failure check_length(const Call& call, Argument argument, int64_t expected, const char* meaning) {
    if (call[argument].view[0] == expected) return {};
    return invalid(argument_name(argument), " length: expected ", meaning, " = ", expected, ", got ",
                   call[argument].view[0]);
}

Failure check_shared_input(const Call& call, const Extents& size) {  // b15
    if (!call.has(kSharedInput)) return {};
    const Dims& shared = call[kSharedInput].view;
    if (shared[0] > size.rows || shared[1] != size.n) {
        return invalid("sharedInput shape: expected (up to ", size.rows, ", ", size.n, "), got ", shared.str());
    }
    return {};
}

Failure check_shared_rows(const Call& call, const Extents& size) {  // b19, a 64-bit sum that can wrap
    const int64_t shared = call.has(kSharedInput) ? call[kSharedInput].view[0] : 0;
    const auto end = static_cast<int64_t>(static_cast<uint64_t>(call.attributes.shared_input_offset) +
                                          static_cast<uint64_t>(shared));
    if (end <= size.rows) return {};
    return invalid("sharedInputOffset ", call.attributes.shared_input_offset, " plus ", shared,
                   " rows of sharedInput: expected at most ", size.rows, " rows of out");
}

Failure check_not_empty(const Call& call) {  // b20, b21, d1
    for (const Argument argument : {kPertokenScale, kX1, kX2, kScale, kGroupList, kSharedInput, kLogit, kRowIndex}) {
        if (call.has(argument) && call[argument].view.has_zero()) {
            return invalid(argument_name(argument), " shape: expected no empty tensor, got ",
                           call[argument].view.str());
        }
    }
    return {};
}

Failure check_formats(const Call& call) {  // c1
    for (const Argument argument :
         {kX1, kScale, kBias, kPertokenScale, kGroupList, kSharedInput, kLogit, kRowIndex, kOffset, kOut}) {
        if (call.has(argument) && call[argument].format != ACL_FORMAT_ND) {
            return invalid(argument_name(argument), " format: expected ND, got ", format_name(call[argument].format));
        }
    }
    if (call[kX2].format != ACL_FORMAT_ND && call[kX2].format != ACL_FORMAT_FRACTAL_NZ) {
        return invalid("x2 format: expected ND or FRACTAL_NZ, got ", format_name(call[kX2].format));
    }
    return {};
}

Failure check_tuning_config(const Call& call, const Extents& size) {  // e1
    if (!call.tuning_config || call.tuning_config->empty()) return {};
    const int64_t first = call.tuning_config->front();
    if (first >= 0 && first <= size.tuning) return {};
    return invalid("tuningConfig[0]: expected 0 to m = ", size.tuning, ", got ", first);
}

// Shape inference repeats the ranks that CheckParams only logs (b1).
Failure check_inferred_ranks(const Call& call) {
    if (call[kX1].view.rank() == 2 && call[kX2].view.rank() == 3) return {};
    return tiling_refuses("ranks of x1 and x2: expected 2 and 3, got ", call[kX1].view.rank(), " and ",
                          call[kX2].view.rank());
}

void fill(const Call& call, const Extents& size, Plan* plan) {
    plan->m = size.m;
    plan->k = size.k;
    plan->n = size.n;
    plan->e = size.e;
    plan->rows = size.rows;
    plan->path = Path::w4a8;
    if (call[kX2].format == ACL_FORMAT_FRACTAL_NZ) {
        plan->unsupported = "x2 format FRACTAL_NZ is not simulated; pass x2 as ND";
    } else if (call.attributes.transpose_x1) {
        plan->unsupported = text("x1 with strides ", call[kX1].strides.str(), " for shape ", call[kX1].view.str(),
                                 " is taken as transposed, which this operator cannot do on ", call.soc->name,
                                 "; make x1 contiguous and give it compact strides");
    } else if (size.k > kMostInner) {
        plan->unsupported = text("k = ", size.k, " is more than ", kMostInner, ", the longest row on ", call.soc->name);
    }
    if (!plan->unsupported.empty()) plan->path = Path::unsupported;
}

}  // namespace

Failure check_atlas_a2_a3(const Call& call, Plan* plan) {
    const Extents size = extents_of(call);
    const auto shape = [&](Argument argument, const Dims& expected) {
        return [&call, argument, expected] { return require_shape(call, argument, expected, ""); };
    };
    const auto length = [&](Argument argument, int64_t expected, const char* meaning) {
        return [&call, argument, expected, meaning] { return check_length(call, argument, expected, meaning); };
    };
    Failure failed = first_failure([&] { return check_dtypes(call); },               // a1
                                   [&] { return check_x1_x2(call, size); },          // b2..b4
                                   [&] { return check_out(call, size); },            // b5..b7
                                   [&] { return check_attributes(call); },           // b8, b9
                                   shape(kScale, Dims{size.e, 1, size.n}),           // b10
                                   shape(kOffset, Dims{size.e, 1, size.n}),          // b11
                                   shape(kBias, Dims{size.e, size.n}),               // b12
                                   length(kPertokenScale, size.m, "m"),              // b13
                                   length(kGroupList, size.e, "e"),                  // b14
                                   [&] { return check_shared_input(call, size); },   // b15
                                   length(kLogit, size.m, "m"),                      // b16
                                   length(kRowIndex, size.m, "m"),                   // b17
                                   [&] { return check_shared_rows(call, size); },    // b19
                                   [&] { return check_not_empty(call); },            // b20, b21
                                   [&] { return check_formats(call); },              // c1
                                   [&] { return check_tuning_config(call, size); },  // e1
                                   [&] { return check_inferred_ranks(call); });
    if (failed) return failed;
    fill(call, size, plan);
    return {};
}

}  // namespace gmmfr
