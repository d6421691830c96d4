/* Descriptors and executors that every aclnn operator works on. */
#ifndef GMMFR_ACLNN_ACL_META_H_
#define GMMFR_ACLNN_ACL_META_H_

#include "acl/acl_base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef int32_t aclnnStatus;
typedef struct aclTensor aclTensor;
typedef struct aclIntArray aclIntArray;
typedef struct aclOpExecutor aclOpExecutor;

static const int ACLNN_SUCCESS = 0;
static const int ACLNN_ERR_PARAM_NULLPTR = 161001;
static const int ACLNN_ERR_PARAM_INVALID = 161002;
static const int ACLNN_ERR_RUNTIME_ERROR = 361001;
static const int ACLNN_ERR_INNER = 561000;
static const int ACLNN_ERR_INNER_INFERSHAPE_ERROR = 561001;
static const int ACLNN_ERR_INNER_TILING_ERROR = 561002;
static const int ACLNN_ERR_INNER_FIND_KERNEL_ERROR = 561003;
static const int ACLNN_ERR_INNER_CREATE_EXECUTOR = 561101;
static const int ACLNN_ERR_INNER_NOT_TRANS_EXECUTOR = 561102;
static const int ACLNN_ERR_INNER_NULLPTR = 561103;
static const int ACLNN_ERR_INNER_WRONG_ATTR_INFO_SIZE = 561104;
static const int ACLNN_ERR_INNER_KEY_CONFLICT = 561105;
static const int ACLNN_ERR_INNER_INVALID_IMPL_MODE = 561106;
static const int ACLNN_ERR_INNER_OPP_PATH_NOT_FOUND = 561107;
static const int ACLNN_ERR_INNER_LOAD_JSON_FAILED = 561108;
static const int ACLNN_ERR_INNER_JSON_VALUE_NOT_FOUND = 561109;
static const int ACLNN_ERR_INNER_JSON_FORMAT_INVALID = 561110;
static const int ACLNN_ERR_INNER_JSON_DTYPE_INVALID = 561111;
static const int ACLNN_ERR_INNER_OPP_KERNEL_PKG_NOT_FOUND = 561112;
static const int ACLNN_ERR_INNER_OP_FILE_INVALID = 561113;
static const int ACLNN_ERR_INNER_ATTR_NUM_OUT_OF_BOUND = 561114;
static const int ACLNN_ERR_INNER_ATTR_LEN_NOT_ENOUGH = 561115;
static const int ACLNN_ERR_INNER_INPUT_NUM_IN_JSON_TOO_LARGE = 561116;
static const int ACLNN_ERR_INNER_INPUT_JSON_IS_NULL = 561117;
static const int ACLNN_ERR_INNER_STATIC_WORKSPACE_INVALID = 561118;
static const int ACLNN_ERR_INNER_STATIC_BLOCK_DIM_INVALID = 561119;
static const int ACLNN_ERR_INNER_RUNTIME_HANDLE_INVALID = 561201;

/*
 * stride NULL means contiguous; stride, offset and both dims count elements (4-bit types: logical 4-bit
 * elements). tensorData is the address of the storage, before the offset. NULL when it cannot be made.
 */
aclTensor* aclCreateTensor(const int64_t* viewDims, uint64_t viewDimsNum, aclDataType dataType, const int64_t* stride,
                           int64_t offset, aclFormat format, const int64_t* storageDims, uint64_t storageDimsNum,
                           void* tensorData);
aclnnStatus aclDestroyTensor(const aclTensor* tensor);

aclIntArray* aclCreateIntArray(const int64_t* value, uint64_t size);
aclnnStatus aclDestroyIntArray(const aclIntArray* array);

/* Between phase 1 and the first phase 2; such an executor is freed by aclDestroyAclOpExecutor alone. */
aclnnStatus aclSetAclOpExecutorRepeatable(aclOpExecutor* executor);
aclnnStatus aclDestroyAclOpExecutor(aclOpExecutor* executor);

/* A new address for a tensor given to phase 1. This operator ignores index: the tensor itself keeps it. */
aclnnStatus aclSetInputTensorAddr(aclOpExecutor* executor, const size_t index, aclTensor* tensor, void* addr);
aclnnStatus aclSetOutputTensorAddr(aclOpExecutor* executor, const size_t index, aclTensor* tensor, void* addr);
aclnnStatus aclSetTensorAddr(aclOpExecutor* executor, const size_t index, aclTensor* tensor, void* addr);

#ifdef __cplusplus
}
#endif

#endif
