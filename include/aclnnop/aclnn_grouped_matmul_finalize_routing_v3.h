/* Grouped matmul of the routed experts, then the scatter-add of its rows into the tokens' rows. */
#ifndef GMMFR_ACLNNOP_ACLNN_GROUPED_MATMUL_FINALIZE_ROUTING_V3_H_
#define GMMFR_ACLNNOP_ACLNN_GROUPED_MATMUL_FINALIZE_ROUTING_V3_H_

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Phase 1: checks the call, tells the workspace it needs and hands out an executor.
 *
 * Despite their names scale, pertokenScale, logit and rowIndex are required everywhere, bias on Atlas A2/A3.
 * offset is optional on A2/A3 and must be NULL on Ascend 950; antiquantScale and antiquantOffset must be NULL.
 * On A2/A3 x2 is INT32 holding eight INT4 and its descriptor is rewritten to INT4 by this call: use a fresh
 * one for each call. dtype is 0. groupListType 0 means running totals, 1 counts.
 */
aclnnStatus aclnnGroupedMatmulFinalizeRoutingV3GetWorkspaceSize(
    const aclTensor* x1, aclTensor* x2, const aclTensor* scaleOptional, const aclTensor* biasOptional,
    const aclTensor* offsetOptional, const aclTensor* antiquantScaleOptional, const aclTensor* antiquantOffsetOptional,
    const aclTensor* pertokenScaleOptional, const aclTensor* groupListOptional, const aclTensor* sharedInputOptional,
    const aclTensor* logitOptional, const aclTensor* rowIndexOptional, int64_t dtype, float sharedInputWeight,
    int64_t sharedInputOffset, bool transposeX1, bool transposeX2, int64_t groupListType,
    const aclIntArray* tuningConfigOptional, aclTensor* out, uint64_t* workspaceSize, aclOpExecutor** executor);

/*
 * Phase 2: queues the work on stream and takes the executor. A2/A3: the memory of x1 is overwritten.
 * out is overwritten, not added to.
 */
aclnnStatus aclnnGroupedMatmulFinalizeRoutingV3(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                                aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif
