// Exported: tensor descriptors, int arrays, executors.
#include <algorithm>

#include "checking.hpp"
#include "executor.hpp"
#include "transfer.hpp"

using namespace gmmfr;

namespace {

constexpr int kMostCode = 63;  // what a type with enumerators up to 41 and 54 has room for

// No number of dtype or format beyond the known ones means anything: those that the type cannot hold are as good as
// undefined.
template <class Enum>
Enum enumerator_of(const Enum& value, Enum undefined) {
    const int number = number_of(value);
    return number < undefined || number > kMostCode ? undefined : static_cast<Enum>(number);
}

Failure describe(const int64_t* view, uint64_t view_count, const int64_t* strides, const int64_t* storage,
                 uint64_t storage_count, Layout* layout) {
    if ((view == nullptr && view_count > 0) || (storage == nullptr && storage_count > 0)) {
        return failure(ACLNN_ERR_PARAM_NULLPTR, view == nullptr && view_count > 0 ? "viewDims" : "storageDims",
                       " is NULL, its count is not 0");
    }
    if (view_count > kMostDims || storage_count > kMostDims) {
        return failure(ACLNN_ERR_PARAM_INVALID, "viewDimsNum and storageDimsNum: expected at most ", kMostDims,
                       ", got ", view_count, " and ", storage_count);
    }
    layout->view = Dims(view, view_count);
    layout->storage = Dims(storage, storage_count);
    for (const int64_t extent : layout->view) {
        if (extent < 0) return failure(ACLNN_ERR_PARAM_INVALID, "viewDims: negative extent in ", layout->view.str());
    }
    layout->strides = strides == nullptr ? contiguous_strides(layout->view) : Dims(strides, view_count);
    return {};
}

int set_address(aclOpExecutor* executor, aclTensor* tensor, void* address) {
    if (executor == nullptr || tensor == nullptr) {
        return fail(ACLNN_ERR_PARAM_NULLPTR, executor == nullptr ? "executor" : "tensor", " is NULL");
    }
    const auto owner = executors().find(executor);
    if (!owner) return fail(ACLNN_ERR_INNER, executors().explain(executor));
    const auto found = tensors().find(tensor);
    if (!found) return fail(ACLNN_ERR_PARAM_INVALID, tensors().explain(tensor));
    const auto& known = owner->tensors;
    if (checking() && std::find(known.begin(), known.end(), found) == known.end()) {
        return fail(ACLNN_ERR_PARAM_INVALID,
                    "the tensor is none that phase 1 of this executor got, so its address "
                    "would never be read");
    }
    found->address.store(address);
    return ACLNN_SUCCESS;
}

}  // namespace

GMMFR_EXPORT aclnnStatus aclnnInit(const char* configPath) {
    (void)configPath;
    return entry("aclnnInit", [] { return ACLNN_SUCCESS; });
}

GMMFR_EXPORT aclnnStatus aclnnFinalize(void) {
    return entry("aclnnFinalize", [] { return ACLNN_SUCCESS; });
}

GMMFR_EXPORT aclTensor* aclCreateTensor(const int64_t* viewDims, uint64_t viewDimsNum, aclDataType dataType,
                                        const int64_t* stride, int64_t offset, aclFormat format,
                                        const int64_t* storageDims, uint64_t storageDimsNum, void* tensorData) {
    aclTensor* handle = nullptr;
    entry("aclCreateTensor", [&] {
        auto tensor = std::make_shared<Tensor>();
        Layout& layout = tensor->layout;
        if (Failure failed = describe(viewDims, viewDimsNum, stride, storageDims, storageDimsNum, &layout)) {
            return report(failed);
        }
        layout.offset = offset;
        layout.dtype = enumerator_of(dataType, ACL_DT_UNDEFINED);
        layout.format = enumerator_of(format, ACL_FORMAT_UNDEFINED);
        tensor->address.store(tensorData);
        handle = static_cast<aclTensor*>(tensors().add(std::move(tensor)));
        return ACLNN_SUCCESS;
    });
    return handle;
}

GMMFR_EXPORT aclnnStatus aclDestroyTensor(const aclTensor* tensor) {
    return entry("aclDestroyTensor", [&] {
        if (tensor == nullptr || tensors().remove(tensor)) return ACLNN_SUCCESS;
        return fail(ACLNN_ERR_PARAM_INVALID, tensors().explain(tensor));
    });
}

GMMFR_EXPORT aclIntArray* aclCreateIntArray(const int64_t* value, uint64_t size) {
    aclIntArray* handle = nullptr;
    entry("aclCreateIntArray", [&] {
        if (value == nullptr && size > 0) return fail(ACLNN_ERR_PARAM_NULLPTR, "value is NULL, size is not 0");
        auto array = std::make_shared<IntArray>();
        if (size > 0) array->assign(value, value + size);
        handle = static_cast<aclIntArray*>(int_arrays().add(std::move(array)));
        return ACLNN_SUCCESS;
    });
    return handle;
}

GMMFR_EXPORT aclnnStatus aclDestroyIntArray(const aclIntArray* array) {
    return entry("aclDestroyIntArray", [&] {
        if (array == nullptr || int_arrays().remove(array)) return ACLNN_SUCCESS;
        return fail(ACLNN_ERR_PARAM_INVALID, int_arrays().explain(array));
    });
}

GMMFR_EXPORT aclnnStatus aclSetAclOpExecutorRepeatable(aclOpExecutor* executor) {
    return entry("aclSetAclOpExecutorRepeatable", [&] {
        if (executor == nullptr) return fail(ACLNN_ERR_INNER_NULLPTR, "executor is NULL");
        const auto found = executors().find(executor);
        if (!found) return fail(ACLNN_ERR_INNER, executors().explain(executor));
        if (found->cache_hit) {
            return fail(ACLNN_ERR_INNER,
                        "an executor that comes from the phase-1 cache cannot be repeated; run it "
                        "once or destroy it");
        }
        if (old_cache_key() && found->tensors[kOffset]) {
            return fail(ACLNN_ERR_INNER,
                        "an executor with an offset cannot be repeated by this library version; run "
                        "it once or destroy it");
        }
        found->repeatable.store(true);
        return ACLNN_SUCCESS;
    });
}

GMMFR_EXPORT aclnnStatus aclDestroyAclOpExecutor(aclOpExecutor* executor) {
    return entry("aclDestroyAclOpExecutor", [&] {
        if (executor == nullptr) return fail(ACLNN_ERR_INNER_NULLPTR, "executor is NULL");
        if (executors().remove(executor) || destroy_transfer(executor)) return ACLNN_SUCCESS;
        return fail(ACLNN_ERR_INNER, executors().explain(executor));
    });
}

GMMFR_EXPORT aclnnStatus aclSetInputTensorAddr(aclOpExecutor* executor, const size_t index, aclTensor* tensor,
                                               void* addr) {
    (void)index;
    return entry("aclSetInputTensorAddr", [&] { return set_address(executor, tensor, addr); });
}

GMMFR_EXPORT aclnnStatus aclSetOutputTensorAddr(aclOpExecutor* executor, const size_t index, aclTensor* tensor,
                                                void* addr) {
    (void)index;
    return entry("aclSetOutputTensorAddr", [&] { return set_address(executor, tensor, addr); });
}

GMMFR_EXPORT aclnnStatus aclSetTensorAddr(aclOpExecutor* executor, const size_t index, aclTensor* tensor, void* addr) {
    (void)index;
    return entry("aclSetTensorAddr", [&] { return set_address(executor, tensor, addr); });
}
