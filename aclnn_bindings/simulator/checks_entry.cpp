// Checks and rewriting that both families share.
#include "checks.hpp"

namespace gmmfr {
namespace {

// E4: one message for all offenders.
constexpr Argument kRequired[] = {kX1, kX2, kScale, kGroupList, kPertokenScale, kLogit, kRowIndex};
constexpr Argument kMustBeNull[] = {kAntiquantScale, kAntiquantOffset};
constexpr Argument kInputs[] = {kX1,        kX2,          kScale, kBias,    kOffset, kPertokenScale,
                                kGroupList, kSharedInput, kLogit, kRowIndex};

constexpr int64_t kInt4PerInt32 = 8;

// E8: the caller's descriptor turns into INT4. The storage shape and the offset keep their numbers, so an
// offset counts 4-bit elements from here on.
void unpack_x2(Call& call) {
    Tensor& tensor = *call.tensors[kX2];
    std::lock_guard<std::mutex> lock(tensor.mutex);
    tensor.layout.view[-1] = static_cast<int64_t>(static_cast<uint64_t>(tensor.layout.view[-1]) * kInt4PerInt32);
    tensor.layout.dtype = ACL_INT4;
    tensor.layout.strides = contiguous_strides(tensor.layout.view);
    call[kX2] = tensor.layout;
}

// The scale of a transposed weight given as a strided view of (e, n, ceil(k/64), 2), or the other way round.
bool scale_looks_transposed(const Layout& scale) {
    if (scale.view.rank() != 4) return false;
    if (scale.view[1] == 1 && scale.view[2] == 1) return false;
    const uint64_t second = 2 * static_cast<uint64_t>(scale.view[1]);
    return scale.strides[1] == 2 && static_cast<uint64_t>(scale.strides[2]) == second &&
           static_cast<uint64_t>(scale.strides[0]) == second * static_cast<uint64_t>(scale.view[2]);
}

void transpose_scale(Layout& scale) {
    std::swap(scale.view[1], scale.view[2]);
    std::swap(scale.strides[1], scale.strides[2]);
    scale.view[3] = 2;
}

Failure check_a2_ranks(const Call& call) {
    const auto at_least_2 = [&](Argument argument) {
        return call[argument].view.rank() >= 2
                   ? Failure{}
                   : invalid(argument_name(argument), " rank: expected at least 2, got ", call[argument].view.rank());
    };
    const auto storage_rank = [&] {
        // a contiguous ND x2 has its storage shape derived from the view again
        const bool nz = call[kX2].format == ACL_FORMAT_FRACTAL_NZ;
        const int rank = nz ? call[kX2].storage.rank() : call[kX2].view.rank();
        const int lowest = nz ? 5 : 3, highest = nz ? 9 : 7;
        if (rank >= lowest && rank <= highest) return Failure{};
        return invalid("x2 storage rank: expected ", lowest, " to ", highest, ", got ", rank);
    };
    const auto exactly = [&](Argument argument, int rank) {
        return [&call, argument, rank] { return require_rank(call, argument, rank); };
    };
    return first_failure(
        storage_rank, [&] { return at_least_2(kX1); }, [&] { return at_least_2(kOut); }, exactly(kScale, 3),
        exactly(kOffset, 3), exactly(kBias, 2), exactly(kPertokenScale, 1), exactly(kGroupList, 1),
        exactly(kSharedInput, 2), exactly(kLogit, 1), exactly(kRowIndex, 1));
}

}  // namespace

Failure check_required(const Call& call) {
    std::string missing, surplus;
    const auto list = [](std::string& words, Argument argument) {
        words += (words.empty() ? "" : ", ") + std::string(argument_name(argument));
    };
    for (const Argument argument : kRequired) {
        if (!call.has(argument)) list(missing, argument);
    }
    if (!call.soc->is_950() && !call.has(kBias)) list(missing, kBias);
    for (const Argument argument : kMustBeNull) {
        if (call.has(argument)) list(surplus, argument);
    }
    if (missing.empty() && surplus.empty()) return {};
    std::string message;
    if (!missing.empty()) message += "expected tensors, got NULL: " + missing;
    if (!surplus.empty()) message += (message.empty() ? "" : "; ") + ("expected NULL, got tensors: " + surplus);
    return failure(ACLNN_ERR_PARAM_NULLPTR, message);
}

Failure check_entry(Call& call) {
    const Attributes& attributes = call.attributes;
    const bool is_950 = call.soc->is_950();
    if (Failure failed = check_required(call)) return failed;  // E4
    if (attributes.dtype != 0) {                               // E5
        return invalid("dtype: expected 0 (FLOAT), got ", attributes.dtype);
    }
    if (call[kX2].view.rank() < 2) {  // E6
        return invalid("x2 rank: expected at least 2, got ", call[kX2].view.rank());
    }
    if (attributes.transpose_x1 || (attributes.transpose_x2 && !is_950)) {  // E7
        return invalid("transposeX1 / transposeX2: expected false / false", is_950 ? " or false / true" : "", " on ",
                       call.soc->name, ", got ", attributes.transpose_x1 ? "true" : "false", " / ",
                       attributes.transpose_x2 ? "true" : "false");
    }
    if (!is_950) {  // E8
        if (call[kX2].dtype != ACL_INT32) {
            return invalid("x2 dtype: expected INT32 (eight INT4 in each) on ", call.soc->name, ", got ",
                           dtype_name(call[kX2].dtype),
                           call[kX2].dtype == ACL_INT4 ? "; a descriptor used by an earlier call was rewritten to "
                                                         "INT4, create a new one for each call"
                                                       : "");
        }
        unpack_x2(call);
        return {};
    }
    for (const Argument argument : {kX1, kX2}) {  // E9
        if (!is_mx_dtype(call[argument].dtype)) {
            return invalid(argument_name(argument), " dtype: expected FLOAT8_E5M2, FLOAT8_E4M3FN or FLOAT4_E2M1 on ",
                           call.soc->name, ", got ", dtype_name(call[argument].dtype));
        }
    }
    return {};
}

Failure preprocess(Call& call, Plan* plan) {
    const bool is_950 = call.soc->is_950();
    Layout& x1 = call[kX1];
    if (x1.looks_transposed()) {  // its logical extents stay; the flag tells that the data is read transposed
        call.attributes.transpose_x1 = !call.attributes.transpose_x1;
    }
    Layout& x2 = call[kX2];
    plan->x2_transposed = call.attributes.transpose_x2;
    if (is_950 && !call.attributes.transpose_x2 && x2.looks_transposed()) {
        x2.swap_last_two();
        plan->x2_transposed = true;
    }
    if (is_950 && x2.format == ACL_FORMAT_FRACTAL_NZ_C0_32) x2.format = ACL_FORMAT_FRACTAL_NZ;
    if (is_mx_dtype(x1.dtype) && call[kScale].dtype == ACL_FLOAT8_E8M0) {
        if (call[kScale].format == ACL_FORMAT_FRACTAL_NZ) {
            return invalid("scale format: expected ND, got FRACTAL_NZ");
        }
        if (scale_looks_transposed(call[kScale])) transpose_scale(call[kScale]);
    }
    if (!is_950) {
        if (Failure failed = check_a2_ranks(call)) return failed;
    }
    for (const Argument input : kInputs) {
        if (call.has(input) && !is_nz(call[input].format)) call[input].format = ACL_FORMAT_ND;
    }
    return {};
}

Failure require_dtype(const Call& call, Argument argument, aclDataType expected) {
    if (!call.has(argument) || call[argument].dtype == expected) return {};
    return invalid(argument_name(argument), " dtype: expected ", dtype_name(expected), ", got ",
                   dtype_name(call[argument].dtype));
}

Failure require_rank(const Call& call, Argument argument, int expected) {
    if (!call.has(argument) || call[argument].view.rank() == expected) return {};
    return invalid(argument_name(argument), " rank: expected ", expected, ", got ", call[argument].view.rank(),
                   " with shape ", call[argument].view.str());
}

Failure require_shape(const Call& call, Argument argument, const Dims& expected, const std::string& hint) {
    if (!call.has(argument) || call[argument].view == expected) return {};
    return invalid(argument_name(argument), " shape: expected ", expected.str(), ", got ", call[argument].view.str(),
                   hint.empty() ? "" : "; ", hint);
}

const char* argument_name(Argument argument) {
    static constexpr const char* kNames[kArguments] = {
        "x1",        "x2",          "scale", "bias",     "offset", "antiquantScale", "antiquantOffset", "pertokenScale",
        "groupList", "sharedInput", "logit", "rowIndex", "out"};
    return kNames[argument];
}

}  // namespace gmmfr
