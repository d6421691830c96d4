// A program as written for CANN: the two-phase call on Ascend 950 with MXFP8 operands.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "acl/acl.h"
#include "aclnnop/aclnn_grouped_matmul_finalize_routing_v3.h"

#define CHECK_RET(cond, return_expr) \
    do {                             \
        if (!(cond)) {               \
            return_expr;             \
        }                            \
    } while (0)

#define LOG_PRINT(message, ...)         \
    do {                                \
        printf(message, ##__VA_ARGS__); \
    } while (0)

int64_t GetShapeSize(const std::vector<int64_t>& shape) {
    int64_t size = 1;
    for (auto extent : shape) {
        size *= extent;
    }
    return size;
}

template <typename T>
int CreateAclTensor(const std::vector<T>& hostData, const std::vector<int64_t>& shape, void** deviceAddr,
                    aclDataType dataType, aclTensor** tensor) {
    auto size = GetShapeSize(shape) * sizeof(T);
    auto ret = aclrtMalloc(deviceAddr, size, ACL_MEM_MALLOC_HUGE_FIRST);
    CHECK_RET(ret == ACL_SUCCESS, LOG_PRINT("aclrtMalloc failed. ERROR: %d\n", ret); return ret);
    ret = aclrtMemcpy(*deviceAddr, size, hostData.data(), size, ACL_MEMCPY_HOST_TO_DEVICE);
    CHECK_RET(ret == ACL_SUCCESS, LOG_PRINT("aclrtMemcpy failed. ERROR: %d\n", ret); return ret);
    std::vector<int64_t> strides(shape.size(), 1);
    for (int64_t i = static_cast<int64_t>(shape.size()) - 2; i >= 0; i--) {
        strides[i] = shape[i + 1] * strides[i + 1];
    }
    *tensor = aclCreateTensor(shape.data(), shape.size(), dataType, strides.data(), 0, ACL_FORMAT_ND, shape.data(),
                              shape.size(), *deviceAddr);
    CHECK_RET(*tensor != nullptr, LOG_PRINT("aclCreateTensor failed.\n"); return 1);
    return ACL_SUCCESS;
}

// One row of ones times columns of ones with k = 64: two scale slots on each side. Returns out[0][0].
int RunOnce(aclrtStream stream, const std::vector<uint8_t>& xSlots, const std::vector<uint8_t>& wSlots, float* value) {
    const int64_t m = 1, k = 64, n = 3, e = 1, rows = 1;
    const uint8_t one = 0x38;  // 1.0 as FLOAT8_E4M3FN
    std::vector<uint8_t> x1Data(m * k, one), x2Data(e * k * n, one), scaleData;
    for (int64_t column = 0; column < n; column++) {
        scaleData.insert(scaleData.end(), wSlots.begin(), wSlots.end());
    }
    std::vector<float> logitData(m, 1.0f), outData(rows * n, -1.0f);
    std::vector<int64_t> groupListData(e, m), rowIndexData(m, 0);

    void *x1Addr = nullptr, *x2Addr = nullptr, *scaleAddr = nullptr, *pertokenAddr = nullptr;
    void *groupListAddr = nullptr, *logitAddr = nullptr, *rowIndexAddr = nullptr, *outAddr = nullptr;
    aclTensor *x1 = nullptr, *x2 = nullptr, *scale = nullptr, *pertoken = nullptr;
    aclTensor *groupList = nullptr, *logit = nullptr, *rowIndex = nullptr, *out = nullptr;

    auto ret = CreateAclTensor(x1Data, {m, k}, &x1Addr, ACL_FLOAT8_E4M3FN, &x1);
    CHECK_RET(ret == ACL_SUCCESS, return ret);
    ret = CreateAclTensor(x2Data, {e, k, n}, &x2Addr, ACL_FLOAT8_E4M3FN, &x2);
    CHECK_RET(ret == ACL_SUCCESS, return ret);
    ret = CreateAclTensor(scaleData, {e, k / 64, n, 2}, &scaleAddr, ACL_FLOAT8_E8M0, &scale);
    CHECK_RET(ret == ACL_SUCCESS, return ret);
    ret = CreateAclTensor(xSlots, {m, k / 64, 2}, &pertokenAddr, ACL_FLOAT8_E8M0, &pertoken);
    CHECK_RET(ret == ACL_SUCCESS, return ret);
    ret = CreateAclTensor(groupListData, {e}, &groupListAddr, ACL_INT64, &groupList);
    CHECK_RET(ret == ACL_SUCCESS, return ret);
    ret = CreateAclTensor(logitData, {m}, &logitAddr, ACL_FLOAT, &logit);
    CHECK_RET(ret == ACL_SUCCESS, return ret);
    ret = CreateAclTensor(rowIndexData, {m}, &rowIndexAddr, ACL_INT64, &rowIndex);
    CHECK_RET(ret == ACL_SUCCESS, return ret);
    ret = CreateAclTensor(outData, {rows, n}, &outAddr, ACL_FLOAT, &out);
    CHECK_RET(ret == ACL_SUCCESS, return ret);

    uint64_t workspaceSize = 0;
    aclOpExecutor* executor = nullptr;
    ret = aclnnGroupedMatmulFinalizeRoutingV3GetWorkspaceSize(x1, x2, scale, nullptr, nullptr, nullptr, nullptr,
                                                              pertoken, groupList, nullptr, logit, rowIndex, 0, 1.0f, 0,
                                                              false, false, 1, nullptr, out, &workspaceSize, &executor);
    CHECK_RET(ret == ACL_SUCCESS, LOG_PRINT("phase 1 failed. ERROR: %d %s\n", ret, aclGetRecentErrMsg()); return ret);

    void* workspaceAddr = nullptr;
    if (workspaceSize > 0) {
        ret = aclrtMalloc(&workspaceAddr, workspaceSize, ACL_MEM_MALLOC_HUGE_FIRST);
        CHECK_RET(ret == ACL_SUCCESS, LOG_PRINT("allocate workspace failed. ERROR: %d\n", ret); return ret);
    }
    ret = aclnnGroupedMatmulFinalizeRoutingV3(workspaceAddr, workspaceSize, executor, stream);
    CHECK_RET(ret == ACL_SUCCESS, LOG_PRINT("phase 2 failed. ERROR: %d %s\n", ret, aclGetRecentErrMsg()); return ret);
    ret = aclrtSynchronizeStream(stream);
    CHECK_RET(ret == ACL_SUCCESS, LOG_PRINT("synchronize failed. ERROR: %d\n", ret); return ret);

    ret = aclrtMemcpy(outData.data(), outData.size() * sizeof(float), outAddr, outData.size() * sizeof(float),
                      ACL_MEMCPY_DEVICE_TO_HOST);
    CHECK_RET(ret == ACL_SUCCESS, LOG_PRINT("copy of the result failed. ERROR: %d\n", ret); return ret);
    for (auto element : outData) {
        CHECK_RET(element == outData[0], LOG_PRINT("columns differ\n"); return 1);
    }
    *value = outData[0];

    for (auto tensor : {x1, x2, scale, pertoken, groupList, logit, rowIndex, out}) {
        CHECK_RET(aclDestroyTensor(tensor) == ACLNN_SUCCESS, return 1);
    }
    for (auto addr :
         {x1Addr, x2Addr, scaleAddr, pertokenAddr, groupListAddr, logitAddr, rowIndexAddr, outAddr, workspaceAddr}) {
        if (addr != nullptr) {
            CHECK_RET(aclrtFree(addr) == ACL_SUCCESS, return 1);
        }
    }
    return ACL_SUCCESS;
}

int main() {
    int32_t deviceId = 0;
    aclrtStream stream = nullptr;
    auto ret = aclInit(nullptr);
    CHECK_RET(ret == ACL_SUCCESS, LOG_PRINT("aclInit failed. ERROR: %d\n", ret); return ret);
    ret = aclrtSetDevice(deviceId);
    CHECK_RET(ret == ACL_SUCCESS, LOG_PRINT("aclrtSetDevice failed. ERROR: %d\n", ret); return ret);
    ret = aclrtCreateStream(&stream);
    CHECK_RET(ret == ACL_SUCCESS, LOG_PRINT("aclrtCreateStream failed. ERROR: %d\n", ret); return ret);

    struct {
        std::vector<uint8_t> x, w;
        float expected;
    } cases[] = {{{127, 127}, {127, 127}, 64.0f},
                 {{127, 128}, {127, 127}, 96.0f},
                 {{127, 127}, {129, 127}, 160.0f},
                 {{128, 127}, {127, 129}, 192.0f},
                 {{128, 127}, {129, 127}, 288.0f}};
    int failures = 0;
    for (const auto& one : cases) {
        float value = NAN;
        ret = RunOnce(stream, one.x, one.w, &value);
        CHECK_RET(ret == ACL_SUCCESS, return 1);
        LOG_PRINT("x slots %d,%d w slots %d,%d: %g, expected %g\n", one.x[0], one.x[1], one.w[0], one.w[1], value,
                  one.expected);
        failures += value == one.expected ? 0 : 1;
    }
    CHECK_RET(aclrtDestroyStream(stream) == ACL_SUCCESS, return 1);
    CHECK_RET(aclrtResetDevice(deviceId) == ACL_SUCCESS, return 1);
    CHECK_RET(aclFinalize() == ACL_SUCCESS, return 1);
    LOG_PRINT(failures == 0 ? "PASS\n" : "FAIL\n");
    return failures;
}
