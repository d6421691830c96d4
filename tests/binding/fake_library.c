/*
 * A stand-in for a vendor's library that computes nothing and records what it is called with.
 *
 * Built by the tests, with these switches: FAKE_V2_ONLY leaves the V3 pair out, FAKE_INIT is what aclInit returns,
 * FAKE_DEVICES how many devices there are, FAKE_MISSING_STREAMS leaves aclrtCreateStream out.
 */
#include <stdlib.h>
#include <string.h>

#include "acl/acl.h"
#include "aclnnop/aclnn_grouped_matmul_finalize_routing_v3.h"

#ifndef FAKE_INIT
#define FAKE_INIT 0
#endif
#ifndef FAKE_DEVICES
#define FAKE_DEVICES 1
#endif
#ifndef FAKE_SOC
#define FAKE_SOC "Ascend950PR_9579"
#endif

#define HUGE_HANDLE ((void*)0x123456789ABCDEF0u)
#define HUGE_SIZE ((uint64_t)8589934656u) /* 2**33 + 64 */

struct record {
    int64_t dtype;
    float weight;
    int64_t offset;
    bool transpose_x1;
    bool transpose_x2;
    int64_t group_list_type;
    uint64_t workspace_size;
    void* executor;
    void* stream;
    void* workspace;
    int inits;
    int finalizes;
    int executors_destroyed;
    int tensors_created;
    int tensors_destroyed;
    int messages_read;
    int resets;
};
struct record record;
int next_status;
const char* next_message;
static const char* recent_message;
static __thread void* current;
static __thread int32_t current_device;

aclError aclInit(const char* configPath) {
    (void)configPath;
    ++record.inits;
    return FAKE_INIT;
}
aclError aclFinalize(void) {
    ++record.finalizes;
    return 0;
}
const char* aclGetRecentErrMsg(void) {
    const char* message = recent_message;
    record.messages_read += message != NULL;
    recent_message = NULL;
    return message;
}
const char* aclrtGetSocName(void) {
    return FAKE_SOC;
}
aclError aclrtGetDeviceCount(uint32_t* count) {
    *count = FAKE_DEVICES;
    return 0;
}
aclError aclrtSetDevice(int32_t device) {
    if (device < 0 || device >= FAKE_DEVICES) {
        return 107001;
    }
    current = (char*)HUGE_HANDLE + device;
    current_device = device;
    return 0;
}
aclError aclrtResetDevice(int32_t device) {
    (void)device;
    ++record.resets;
    return 0;
}
aclError aclrtGetDevice(int32_t* device) {
    *device = current_device;
    return current != NULL ? 0 : 107002;
}
aclError aclrtGetCurrentContext(aclrtContext* context) {
    *context = current;
    return current != NULL ? 0 : 107002;
}
aclError aclrtSetCurrentContext(aclrtContext context) {
    current = context;
    current_device = (int32_t)((char*)context - (char*)HUGE_HANDLE);
    return 0;
}
#ifndef FAKE_MISSING_STREAMS
aclError aclrtCreateStream(aclrtStream* stream) {
    *stream = (char*)HUGE_HANDLE + 16;
    return 0;
}
#endif
aclError aclrtDestroyStream(aclrtStream stream) {
    (void)stream;
    return 0;
}
aclError aclrtSynchronizeStream(aclrtStream stream) {
    record.stream = stream;
    return 0;
}
aclError aclrtMalloc(void** pointer, size_t size, aclrtMemMallocPolicy policy) {
    (void)policy;
    if (size > ((size_t)1 << 32)) { /* the workspace: an address, no memory */
        *pointer = (char*)HUGE_HANDLE + 64;
        return 0;
    }
    *pointer = calloc(1, size);
    return *pointer != NULL ? 0 : 207001;
}
aclError aclrtFree(void* pointer) {
    if (pointer != (char*)HUGE_HANDLE + 64) {
        free(pointer);
    }
    return 0;
}
aclError aclrtMemcpy(void* target, size_t most, const void* source, size_t count, aclrtMemcpyKind kind) {
    (void)kind;
    if (count > most) {
        return 100000;
    }
    memcpy(target, source, count);
    return 0;
}

aclTensor* aclCreateTensor(const int64_t* dims, uint64_t rank, aclDataType type, const int64_t* strides, int64_t offset,
                           aclFormat format, const int64_t* storage, uint64_t storageRank, void* data) {
    (void)dims, (void)rank, (void)type, (void)strides, (void)offset, (void)format, (void)storage, (void)storageRank;
    ++record.tensors_created;
    return data;
}
aclnnStatus aclDestroyTensor(const aclTensor* tensor) {
    (void)tensor;
    ++record.tensors_destroyed;
    return 0;
}
aclIntArray* aclCreateIntArray(const int64_t* values, uint64_t size) {
    (void)values, (void)size;
    return HUGE_HANDLE;
}
aclnnStatus aclDestroyIntArray(const aclIntArray* array) {
    (void)array;
    return 0;
}
aclnnStatus aclDestroyAclOpExecutor(aclOpExecutor* executor) {
    (void)executor;
    ++record.executors_destroyed;
    return 0;
}

#ifdef FAKE_V2_ONLY
aclnnStatus aclnnGroupedMatmulFinalizeRoutingV2GetWorkspaceSize(void) {
    return 0;
}
aclnnStatus aclnnGroupedMatmulFinalizeRoutingV2(void) {
    return 0;
}
#else
aclnnStatus aclnnGroupedMatmulFinalizeRoutingV3GetWorkspaceSize(
    const aclTensor* x1, aclTensor* x2, const aclTensor* scale, const aclTensor* bias, const aclTensor* offset,
    const aclTensor* antiquantScale, const aclTensor* antiquantOffset, const aclTensor* pertokenScale,
    const aclTensor* groupList, const aclTensor* sharedInput, const aclTensor* logit, const aclTensor* rowIndex,
    int64_t dtype, float sharedInputWeight, int64_t sharedInputOffset, bool transposeX1, bool transposeX2,
    int64_t groupListType, const aclIntArray* tuningConfig, aclTensor* out, uint64_t* workspaceSize,
    aclOpExecutor** executor) {
    (void)x1, (void)x2, (void)scale, (void)bias, (void)offset, (void)antiquantScale, (void)antiquantOffset;
    (void)pertokenScale, (void)groupList, (void)sharedInput, (void)logit, (void)rowIndex, (void)tuningConfig, (void)out;
    record.dtype = dtype;
    record.weight = sharedInputWeight;
    record.offset = sharedInputOffset;
    record.transpose_x1 = transposeX1;
    record.transpose_x2 = transposeX2;
    record.group_list_type = groupListType;
    if (next_status != 0) {
        int status = next_status;
        next_status = 0;
        recent_message = next_message;
        next_message = NULL;
        return status;
    }
    *workspaceSize = HUGE_SIZE;
    *executor = (aclOpExecutor*)((char*)HUGE_HANDLE + 32);
    return 0;
}
aclnnStatus aclnnGroupedMatmulFinalizeRoutingV3(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                                aclrtStream stream) {
    record.workspace = workspace;
    record.workspace_size = workspaceSize;
    record.executor = executor;
    record.stream = stream;
    return 0;
}
#endif
