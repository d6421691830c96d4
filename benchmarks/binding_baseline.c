/* The tiny MXFP8 call of binding.py, as a C program would make it. Times are nanoseconds of single calls. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "acl/acl.h"
#include "aclnnop/aclnn_grouped_matmul_finalize_routing_v3.h"

enum { M = 2, K = 64, N = 32, E = 2, BATCH = 2, INPUTS = 7, TENSORS = 8 };

struct tensor {
    int64_t dims[4];
    uint64_t rank;
    aclDataType type;
    size_t bytes;
};
/* x1, x2, scale, pertokenScale, groupList, logit, rowIndex, out */
static const struct tensor kTensors[TENSORS] = {
    {{M, K}, 2, ACL_FLOAT8_E4M3FN, M * K},
    {{E, K, N}, 3, ACL_FLOAT8_E4M3FN, E * K * N},
    {{E, K / 64, N, 2}, 4, ACL_FLOAT8_E8M0, E * (K / 64) * N * 2},
    {{M, K / 64, 2}, 3, ACL_FLOAT8_E8M0, M * (K / 64) * 2},
    {{E}, 1, ACL_INT64, E * 8},
    {{M}, 1, ACL_FLOAT, M * 4},
    {{M}, 1, ACL_INT64, M * 8},
    {{BATCH, N}, 2, ACL_FLOAT, BATCH * N * 4},
};

static void* memory[TENSORS];
static void* workspace;
static uint64_t workspaceSize;
static aclrtStream stream;
static aclTensor* lasting[TENSORS];
static aclOpExecutor* repeatable;

static void check(int status, const char* what) {
    if (status != 0) {
        const char* message = aclGetRecentErrMsg();
        fprintf(stderr, "%s returned %d: %s\n", what, status, message != NULL ? message : "");
        exit(1);
    }
}

static void create(aclTensor** tensors) {
    for (int i = 0; i < TENSORS; ++i) {
        const struct tensor* t = &kTensors[i];
        tensors[i] = aclCreateTensor(t->dims, t->rank, t->type, NULL, 0, ACL_FORMAT_ND, t->dims, t->rank, memory[i]);
    }
}

static void destroy(aclTensor** tensors) {
    for (int i = 0; i < TENSORS; ++i) {
        check(aclDestroyTensor(tensors[i]), "aclDestroyTensor");
    }
}

static aclOpExecutor* phase_one(aclTensor** t) {
    aclOpExecutor* executor = NULL;
    check(aclnnGroupedMatmulFinalizeRoutingV3GetWorkspaceSize(t[0], t[1], t[2], NULL, NULL, NULL, NULL, t[3], t[4],
                                                              NULL, t[5], t[6], 0, 1.0f, 0, false, false, 1, NULL, t[7],
                                                              &workspaceSize, &executor),
          "phase 1");
    return executor;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

/* Device memory, stream and workspace, kept for all calls as the binding's pool keeps them. */
void prepare(const void* const* host) {
    check(aclInit(NULL), "aclInit");
    check(aclrtSetDevice(0), "aclrtSetDevice");
    check(aclrtCreateStream(&stream), "aclrtCreateStream");
    for (int i = 0; i < TENSORS; ++i) {
        check(aclrtMalloc(&memory[i], kTensors[i].bytes, ACL_MEM_MALLOC_HUGE_FIRST), "aclrtMalloc");
    }
    for (int i = 0; i < INPUTS; ++i) {
        check(aclrtMemcpy(memory[i], kTensors[i].bytes, host[i], kTensors[i].bytes, ACL_MEMCPY_HOST_TO_DEVICE),
              "aclrtMemcpy");
    }
    create(lasting);
    repeatable = phase_one(lasting);
    check(aclSetAclOpExecutorRepeatable(repeatable), "aclSetAclOpExecutorRepeatable");
    check(aclrtMalloc(&workspace, workspaceSize, ACL_MEM_MALLOC_HUGE_FIRST), "aclrtMalloc");
}

/* Phase 2 of one repeatable executor, and waiting for it. */
void time_executes(int count, double* nanoseconds) {
    for (int i = 0; i < count; ++i) {
        double begin = now();
        check(aclnnGroupedMatmulFinalizeRoutingV3(workspace, workspaceSize, repeatable, stream), "phase 2");
        check(aclrtSynchronizeStream(stream), "aclrtSynchronizeStream");
        nanoseconds[i] = now() - begin;
    }
}

/* A whole call: copies in, descriptors, both phases, waiting, the copy out. */
void time_calls(int count, double* nanoseconds, const void* const* host, void* out) {
    aclTensor* tensors[TENSORS];
    for (int i = 0; i < count; ++i) {
        double begin = now();
        for (int j = 0; j < INPUTS; ++j) {
            check(aclrtMemcpy(memory[j], kTensors[j].bytes, host[j], kTensors[j].bytes, ACL_MEMCPY_HOST_TO_DEVICE),
                  "aclrtMemcpy");
        }
        create(tensors);
        aclOpExecutor* executor = phase_one(tensors);
        check(aclnnGroupedMatmulFinalizeRoutingV3(workspace, workspaceSize, executor, stream), "phase 2");
        check(aclrtSynchronizeStream(stream), "aclrtSynchronizeStream");
        destroy(tensors);
        check(
            aclrtMemcpy(out, kTensors[INPUTS].bytes, memory[INPUTS], kTensors[INPUTS].bytes, ACL_MEMCPY_DEVICE_TO_HOST),
            "aclrtMemcpy");
        nanoseconds[i] = now() - begin;
    }
}
