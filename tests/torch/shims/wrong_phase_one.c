/* libopapi.so with a wrong prototype of phase 1, for the tests to catch: -DWEIGHT_IS_DOUBLE or -DNO_OFFSET. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#define PHASE_1 "aclnnGroupedMatmulFinalizeRoutingV3GetWorkspaceSize"

typedef int32_t (*phase_1)(const void*, void*, const void*, const void*, const void*, const void*, const void*,
                           const void*, const void*, const void*, const void*, const void*, int64_t, float, int64_t,
                           bool, bool, int64_t, const void*, void*, uint64_t*, void**);

#ifdef WEIGHT_IS_DOUBLE
typedef double weight_type;
#else
typedef float weight_type;
#endif

__attribute__((visibility("default"))) int32_t aclnnGroupedMatmulFinalizeRoutingV3GetWorkspaceSize(
    const void* x1, void* x2, const void* scale, const void* bias,
#ifndef NO_OFFSET
    const void* offset,
#endif
    const void* antiquantScale, const void* antiquantOffset, const void* pertokenScale, const void* groupList,
    const void* sharedInput, const void* logit, const void* rowIndex, int64_t dtype, weight_type sharedInputWeight,
    int64_t sharedInputOffset, bool transposeX1, bool transposeX2, int64_t groupListType, const void* tuningConfig,
    void* out, uint64_t* workspaceSize, void** executor) {
#ifdef NO_OFFSET
    const void* offset = NULL;
#endif
    void* runtime = dlopen("libascendcl.so", RTLD_NOW);
    phase_1 real = runtime == NULL ? NULL : (phase_1)dlsym(runtime, PHASE_1);
    if (real == NULL) {
        abort();
    }
    return real(x1, x2, scale, bias, offset, antiquantScale, antiquantOffset, pertokenScale, groupList, sharedInput,
                logit, rowIndex, dtype, (float)sharedInputWeight, sharedInputOffset, transposeX1, transposeX2,
                groupListType, tuningConfig, out, workspaceSize, executor);
}
