// A program as written for CANN: the two-phase call on Atlas A2/A3 with INT4 weights packed in INT32.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

#include "acl/acl.h"
#include "aclnnop/aclnn_grouped_matmul_finalize_routing_v3.h"

namespace {

constexpr int64_t M = 4, K = 256, N = 128, E = 2, BATCH = 2;

// A tensor with its device memory.
struct DeviceTensor {
    aclTensor* tensor = nullptr;
    void* address = nullptr;
    std::vector<int64_t> shape;
    aclDataType dataType = ACL_DT_UNDEFINED;

    template <typename T>
    bool Create(const std::vector<T>& data, const std::vector<int64_t>& dims, aclDataType type) {
        shape = dims;
        dataType = type;
        const size_t size = data.size() * sizeof(T);
        if (aclrtMalloc(&address, size, ACL_MEM_MALLOC_HUGE_FIRST) != ACL_SUCCESS) {
            return false;
        }
        return Write(data) && Describe();
    }

    template <typename T>
    bool Write(const std::vector<T>& data) {
        const size_t size = data.size() * sizeof(T);
        return aclrtMemcpy(address, size, data.data(), size, ACL_MEMCPY_HOST_TO_DEVICE) == ACL_SUCCESS;
    }

    // A new descriptor over the same memory.
    bool Describe() {
        if (aclDestroyTensor(tensor) != ACLNN_SUCCESS) {
            return false;
        }
        tensor = aclCreateTensor(shape.data(), shape.size(), dataType, nullptr, 0, ACL_FORMAT_ND, shape.data(),
                                 shape.size(), address);
        return tensor != nullptr;
    }

    bool Destroy() { return aclDestroyTensor(tensor) == ACLNN_SUCCESS && aclrtFree(address) == ACL_SUCCESS; }
};

struct Operands {
    DeviceTensor x1, x2, scale, bias, pertoken, groupList, sharedInput, logit, rowIndex, out;
};

std::vector<int8_t> X1Data() {
    std::vector<int8_t> data(M * K);
    for (int64_t i = 0; i < M * K; i++) {
        data[i] = static_cast<int8_t>(i / K + 1);
    }
    return data;
}

// Eight weights in each word: expert 0 holds 1, expert 1 holds -2.
std::vector<int32_t> X2Data() {
    std::vector<int32_t> data(E * K * N / 8, 0x11111111);
    for (size_t i = data.size() / 2; i < data.size(); i++) {
        data[i] = static_cast<int32_t>(0xEEEEEEEE);
    }
    return data;
}

std::vector<int64_t> ScaleData() {
    std::vector<int64_t> data(E * N);
    for (int64_t i = 0; i < E * N; i++) {
        const float scale = i < N ? 0.5f : 0.25f;
        uint32_t bits = 0;
        std::memcpy(&bits, &scale, sizeof(bits));
        data[i] = static_cast<int64_t>(bits);
    }
    return data;
}

std::vector<float> BiasData() {
    std::vector<float> data(E * N, 1024.0f);
    for (int64_t i = N; i < E * N; i++) {
        data[i] = -1024.0f;
    }
    return data;
}

bool CreateOperands(Operands& op) {
    const uint16_t ten = 0x4120;  // 10.0 as BF16
    return op.x1.Create(X1Data(), {M, K}, ACL_INT8) && op.x2.Create(X2Data(), {E, K, N / 8}, ACL_INT32) &&
           op.scale.Create(ScaleData(), {E, 1, N}, ACL_INT64) && op.bias.Create(BiasData(), {E, N}, ACL_FLOAT) &&
           op.pertoken.Create(std::vector<float>(M, 1.0f), {M}, ACL_FLOAT) &&
           op.groupList.Create(std::vector<int64_t>{2, 2}, {E}, ACL_INT64) &&
           op.sharedInput.Create(std::vector<uint16_t>(N, ten), {1, N}, ACL_BF16) &&
           op.logit.Create(std::vector<float>{0.5f, 0.25f, 0.75f, 0.25f}, {M}, ACL_FLOAT) &&
           op.rowIndex.Create(std::vector<int64_t>{0, 1, 1, 0}, {M}, ACL_INT64) &&
           op.out.Create(std::vector<float>(BATCH * N, -1.0f), {BATCH, N}, ACL_FLOAT);
}

bool DestroyOperands(Operands& op) {
    bool good = true;
    for (DeviceTensor* one : {&op.x1, &op.x2, &op.scale, &op.bias, &op.pertoken, &op.groupList, &op.sharedInput,
                              &op.logit, &op.rowIndex, &op.out}) {
        good = one->Destroy() && good;
    }
    return good;
}

// Runs the call; x1 and the descriptor of x2 are used up by it.
bool Run(Operands& op, bool shared, int64_t sharedOffset, aclrtStream stream, std::vector<float>& result) {
    const int64_t expectedTokens[] = {2};
    aclIntArray* tuningConfig = aclCreateIntArray(expectedTokens, 1);
    uint64_t workspaceSize = 0;
    aclOpExecutor* executor = nullptr;
    auto ret = aclnnGroupedMatmulFinalizeRoutingV3GetWorkspaceSize(
        op.x1.tensor, op.x2.tensor, op.scale.tensor, op.bias.tensor, nullptr, nullptr, nullptr, op.pertoken.tensor,
        op.groupList.tensor, shared ? op.sharedInput.tensor : nullptr, op.logit.tensor, op.rowIndex.tensor, 0, 0.5f,
        sharedOffset, false, false, 1, tuningConfig, op.out.tensor, &workspaceSize, &executor);
    if (ret != ACLNN_SUCCESS) {
        const char* message = aclGetRecentErrMsg();
        std::printf("phase 1: %d %s\n", ret, message == nullptr ? "" : message);
        return false;
    }
    void* workspace = nullptr;
    if (workspaceSize > 0 && aclrtMalloc(&workspace, workspaceSize, ACL_MEM_MALLOC_HUGE_FIRST) != ACL_SUCCESS) {
        return false;
    }
    ret = aclnnGroupedMatmulFinalizeRoutingV3(workspace, workspaceSize, executor, stream);
    const bool ran = ret == ACLNN_SUCCESS && aclrtSynchronizeStream(stream) == ACL_SUCCESS;
    result.assign(BATCH * N, 0.0f);
    const size_t size = result.size() * sizeof(float);
    const bool copied =
        ran && aclrtMemcpy(result.data(), size, op.out.address, size, ACL_MEMCPY_DEVICE_TO_HOST) == ACL_SUCCESS;
    const bool freed = workspace == nullptr || aclrtFree(workspace) == ACL_SUCCESS;
    return aclDestroyIntArray(tuningConfig) == ACLNN_SUCCESS && copied && freed;
}

bool Expect(const char* name, const std::vector<float>& result, float first, float second) {
    bool good = true;
    for (int64_t i = 0; i < BATCH * N; i++) {
        good = good && result[i] == (i < N ? first : second);
    }
    std::printf("%s: %g / %g, expected %g / %g\n", name, result[0], result[N], first, second);
    return good;
}

bool RunAll(aclrtStream stream) {
    Operands op;
    std::vector<float> result;
    bool good = CreateOperands(op);
    good = good && Run(op, false, 0, stream, result) && Expect("no shared input", result, -64.0f, -224.0f);
    // the call has overwritten x1 and turned the descriptor of x2 into INT4
    good = good && op.x1.Write(X1Data()) && op.x2.Describe();
    good = good && Run(op, true, 1, stream, result) && Expect("shared row 1", result, -64.0f, -219.0f);
    good = good && op.x1.Write(X1Data()) && op.x2.Describe();
    good = good && Run(op, true, 0, stream, result) && Expect("shared row 0", result, -59.0f, -224.0f);
    return DestroyOperands(op) && good;
}

}  // namespace

int main() {
    aclrtStream stream = nullptr;
    if (aclInit(nullptr) != ACL_SUCCESS || aclrtSetDevice(0) != ACL_SUCCESS ||
        aclrtCreateStream(&stream) != ACL_SUCCESS) {
        std::printf("no device\n");
        return 1;
    }
    const bool good = RunAll(stream);
    const bool closed =
        aclrtDestroyStream(stream) == ACL_SUCCESS && aclrtResetDevice(0) == ACL_SUCCESS && aclFinalize() == ACL_SUCCESS;
    std::printf("%s\n", good && closed ? "PASS" : "FAIL");
    return good && closed ? 0 : 1;
}
