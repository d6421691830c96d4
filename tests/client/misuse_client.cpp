// Mistakes that a caller can make, one after the other, each with the status and the message that it gets.
// Prints "name|status|message" for each. None may end the process.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "acl/acl.h"
#include "aclnnop/aclnn_grouped_matmul_finalize_routing_v3.h"

namespace {

constexpr int64_t M = 8, K = 64, N = 32, E = 2, ROWS = 4;

struct Tensor {
    aclTensor* handle = nullptr;
    void* address = nullptr;
    std::vector<int64_t> shape;
    aclDataType dtype = ACL_DT_UNDEFINED;
    size_t bytes = 0;

    template <typename T>
    void Create(const std::vector<T>& data, std::vector<int64_t> dims, aclDataType type) {
        shape = dims;
        dtype = type;
        bytes = data.size() * sizeof(T);
        if (address != nullptr) {
            aclrtFree(address);
        }
        aclrtMalloc(&address, bytes, ACL_MEM_MALLOC_HUGE_FIRST);
        aclrtMemcpy(address, bytes, data.data(), bytes, ACL_MEMCPY_HOST_TO_DEVICE);
        Describe(address, shape);
    }

    void Describe(void* data, const std::vector<int64_t>& storage) {
        aclDestroyTensor(handle);
        handle = aclCreateTensor(shape.data(), shape.size(), dtype, nullptr, 0, ACL_FORMAT_ND, storage.data(),
                                 storage.size(), data);
    }
};

// A small MXFP8 call that is right in every respect.
struct Call {
    Tensor x1, x2, scale, pertoken, groupList, logit, rowIndex, out;
    void* workspace = nullptr;
    uint64_t workspaceSize = 0;
    aclOpExecutor* executor = nullptr;
    aclrtStream stream = nullptr;

    explicit Call(std::vector<int64_t> counts = {5, 3}, std::vector<int64_t> rows = {0, 1, 2, 3, 0, 1, 2, 3}) {
        const uint8_t one = 0x38, unit = 127;
        aclrtCreateStream(&stream);
        x1.Create(std::vector<uint8_t>(M * K, one), {M, K}, ACL_FLOAT8_E4M3FN);
        x2.Create(std::vector<uint8_t>(E * K * N, one), {E, K, N}, ACL_FLOAT8_E4M3FN);
        scale.Create(std::vector<uint8_t>(E * N * 2, unit), {E, 1, N, 2}, ACL_FLOAT8_E8M0);
        pertoken.Create(std::vector<uint8_t>(M * 2, unit), {M, 1, 2}, ACL_FLOAT8_E8M0);
        groupList.Create(counts, {E}, ACL_INT64);
        logit.Create(std::vector<float>(M, 1.0f), {M}, ACL_FLOAT);
        rowIndex.Create(rows, {M}, ACL_INT64);
        out.Create(std::vector<float>(ROWS * N, 0.0f), {ROWS, N}, ACL_FLOAT);
    }

    ~Call() {
        aclrtSynchronizeStream(stream);
        aclrtDestroyStream(stream);
        for (Tensor* one : {&x1, &x2, &scale, &pertoken, &groupList, &logit, &rowIndex, &out}) {
            aclDestroyTensor(one->handle);
            aclrtFree(one->address);
        }
        if (workspace != nullptr) {
            aclrtFree(workspace);
        }
        while (aclGetRecentErrMsg() != nullptr) {
        }
    }

    int PhaseOne(int64_t groupListType = 1) {
        return aclnnGroupedMatmulFinalizeRoutingV3GetWorkspaceSize(
            x1.handle, x2.handle, scale.handle, nullptr, nullptr, nullptr, nullptr, pertoken.handle, groupList.handle,
            nullptr, logit.handle, rowIndex.handle, 0, 1.0f, 0, false, false, groupListType, nullptr, out.handle,
            &workspaceSize, &executor);
    }

    int Launch(int64_t groupListType = 1) {
        int status = PhaseOne(groupListType);
        if (status == ACL_SUCCESS && workspace == nullptr) {
            status = aclrtMalloc(&workspace, workspaceSize, ACL_MEM_MALLOC_HUGE_FIRST);
        }
        return status != ACL_SUCCESS ? status : Execute();
    }

    int Execute() { return aclnnGroupedMatmulFinalizeRoutingV3(workspace, workspaceSize, executor, stream); }
    int Run(int64_t groupListType = 1) {
        const int status = Launch(groupListType);
        return status != ACL_SUCCESS ? status : aclrtSynchronizeStream(stream);
    }
};

// The status that the mistake itself gets; its message is read right after.
using Mistake = std::function<int()>;

void Report(const std::string& name, const Mistake& mistake) {
    const int status = mistake();
    const char* message = status == ACL_SUCCESS ? nullptr : aclGetRecentErrMsg();
    std::string line = message == nullptr ? "" : message;
    for (char& letter : line) {
        letter = letter == '\n' ? ';' : letter;
    }
    std::printf("%s|%d|%s\n", name.c_str(), status, line.c_str());
    std::fflush(stdout);
}

// Keeps the mistake's message although the call is cleaned up after it.
int Keep(int status, std::string* message) {
    const char* words = aclGetRecentErrMsg();
    *message = words == nullptr ? "" : words;
    return status;
}

void Show(const std::string& name, const std::function<int(Call&)>& mistake, Call&& call = Call()) {
    std::string message;
    const int status = Keep(mistake(call), &message);
    for (char& letter : message) {
        letter = letter == '\n' ? ';' : letter;
    }
    std::printf("%s|%d|%s\n", name.c_str(), status, status == ACL_SUCCESS ? "" : message.c_str());
    std::fflush(stdout);
}

void HandleMistakes() {
    Show("executor run twice", [](Call& call) {
        call.Run();
        return call.Execute();
    });
    Show("executor destroyed twice", [](Call& call) {
        call.PhaseOne();
        aclDestroyAclOpExecutor(call.executor);
        return aclDestroyAclOpExecutor(call.executor);
    });
    Show("cached executor made repeatable", [](Call& call) {
        call.Run();
        call.PhaseOne();
        const int status = aclSetAclOpExecutorRepeatable(call.executor);
        aclDestroyAclOpExecutor(call.executor);
        return status;
    });
    Show("tensor destroyed twice", [](Call& call) {
        aclDestroyTensor(call.x1.handle);
        const int status = aclDestroyTensor(call.x1.handle);
        call.x1.handle = nullptr;
        return status;
    });
    Show("tensor destroyed before phase 1", [](Call& call) {
        aclDestroyTensor(call.logit.handle);
        const int status = call.PhaseOne();
        call.logit.handle = nullptr;
        return status;
    });
    Show("tensor destroyed between the phases", [](Call& call) {
        call.Run();
        call.PhaseOne();
        aclDestroyTensor(call.out.handle);
        call.out.handle = nullptr;
        return call.Execute();
    });
    Show("int array destroyed twice", [](Call&) {
        const int64_t value = 1;
        aclIntArray* array = aclCreateIntArray(&value, 1);
        aclDestroyIntArray(array);
        return aclDestroyIntArray(array);
    });
    Show("stream destroyed twice", [](Call&) {
        aclrtStream stream = nullptr;
        aclrtCreateStream(&stream);
        aclrtDestroyStream(stream);
        return aclrtDestroyStream(stream);
    });
    Show("event given as stream", [](Call&) {
        aclrtEvent event = nullptr;
        aclrtCreateEvent(&event);
        const int status = aclrtSynchronizeStream(event);
        aclrtDestroyEvent(event);
        return status;
    });
    Show("new address for a tensor of another call", [](Call& call) {
        call.PhaseOne();
        aclSetAclOpExecutorRepeatable(call.executor);
        Tensor other;
        other.Create(std::vector<float>(4, 0.0f), {4}, ACL_FLOAT);
        const int status = aclSetInputTensorAddr(call.executor, 0, other.handle, call.x1.address);
        aclDestroyTensor(other.handle);
        aclrtFree(other.address);
        aclDestroyAclOpExecutor(call.executor);
        return status;
    });
}

void MemoryMistakes() {
    Show("workspace missing", [](Call& call) {
        call.PhaseOne();
        return call.Execute();
    });
    Show("workspace too small", [](Call& call) {
        call.PhaseOne();
        aclrtMalloc(&call.workspace, call.workspaceSize, ACL_MEM_MALLOC_HUGE_FIRST);
        return aclnnGroupedMatmulFinalizeRoutingV3(call.workspace, call.workspaceSize / 2, call.executor, call.stream);
    });
    Show("host memory as x1", [](Call& call) {
        alignas(32) static uint8_t host[M * K];
        call.x1.Describe(host, call.x1.shape);
        return call.Run();
    });
    Show("memory freed twice", [](Call&) {
        void* address = nullptr;
        aclrtMalloc(&address, 64, ACL_MEM_MALLOC_HUGE_FIRST);
        aclrtFree(address);
        return aclrtFree(address);
    });
    Show("input freed before the launch", [](Call& call) {
        aclrtFree(call.x2.address);
        const int status = call.Run();
        call.x2.address = nullptr;
        return status;
    });
    Show("misaligned address", [](Call& call) {
        call.pertoken.Create(std::vector<uint8_t>(M * 2 + 4, 127), {M, 1, 2}, ACL_FLOAT8_E8M0);
        call.pertoken.Describe(static_cast<uint8_t*>(call.pertoken.address) + 4, call.pertoken.shape);
        return call.Run();
    });
    Show("view beyond its storage", [](Call& call) {
        call.x2.Describe(call.x2.address, {E, K, N - 1});
        return call.Run();
    });
    Show("allocation with the wrong element size", [](Call& call) {
        call.x2.Create(std::vector<uint8_t>(E * K * N / 2), {E, K, N}, ACL_FLOAT8_E4M3FN);
        return call.Run();
    });
    Show("copy past the end", [](Call& call) {
        std::vector<uint8_t> host(M * K + 4096);
        return aclrtMemcpy(call.x1.address, host.size(), host.data(), host.size(), ACL_MEMCPY_HOST_TO_DEVICE);
    });
    Show("device address as host address", [](Call& call) {
        return aclrtMemcpy(call.x1.address, M * K, call.x2.address, M * K, ACL_MEMCPY_HOST_TO_DEVICE);
    });
}

void OrderMistakes() {
    Show("memory freed under queued work", [](Call& call) {
        call.Launch();
        const int status = aclrtFree(call.workspace);
        call.workspace = nullptr;
        return status;
    });
    Show("result copied before synchronise", [](Call& call) {
        std::vector<float> host(ROWS * N);
        call.Launch();
        return aclrtMemcpy(host.data(), call.out.bytes, call.out.address, call.out.bytes, ACL_MEMCPY_DEVICE_TO_HOST);
    });
    Show("two streams without an event", [](Call& call) {
        aclrtStream other = nullptr;
        aclrtCreateStream(&other);
        call.Launch();
        const int status = aclrtMemsetAsync(call.out.address, call.out.bytes, 0, call.out.bytes, other);
        aclrtSynchronizeStream(call.stream);
        aclrtDestroyStream(other);
        return status;
    });
    Show("two streams with an event", [](Call& call) {
        aclrtStream other = nullptr;
        aclrtEvent event = nullptr;
        aclrtCreateStream(&other);
        aclrtCreateEvent(&event);
        int status = call.Launch();
        status += aclrtRecordEvent(event, call.stream) + aclrtStreamWaitEvent(other, event);
        status += aclrtMemsetAsync(call.out.address, call.out.bytes, 0, call.out.bytes, other);
        status += aclrtSynchronizeStream(other) + aclrtDestroyEvent(event) + aclrtDestroyStream(other);
        return status;
    });
}

void ValueMistakes() {
    Show("row index past out", [](Call& call) { return call.Run(); }, Call({5, 3}, {0, 1, 2, 4, 0, 1, 2, 3}));
    Show("row index negative", [](Call& call) { return call.Run(); }, Call({5, 3}, {0, -1, 2, 3, 0, 1, 2, 3}));
    Show("counts beyond m", [](Call& call) { return call.Run(); }, Call({5, 4}));
    Show("count negative", [](Call& call) { return call.Run(); }, Call({-1, 4}));
    Show("totals decreasing", [](Call& call) { return call.Run(0); }, Call({5, 3}));
}

void ThreadMistakes() {
    Report("thread without a device", [] {
        int status = ACL_SUCCESS;
        std::thread([&] {
            void* address = nullptr;
            status = aclrtMalloc(&address, 64, ACL_MEM_MALLOC_HUGE_FIRST);
        }).join();
        return status;
    });
    Report("use after fork", [] {
        const pid_t child = fork();
        if (child == 0) {
            int32_t device = 0;
            _exit(aclrtGetDevice(&device) == ACL_ERROR_UNINITIALIZE ? 0 : 1);
        }
        int state = 0;
        waitpid(child, &state, 0);
        return WIFEXITED(state) && WEXITSTATUS(state) == 0 ? ACL_ERROR_UNINITIALIZE : ACL_SUCCESS;
    });
}

// The simulated device's memory can be reached by the host: the guard bytes around it cannot be written unseen.
void WritePastTheEnd() {
    Show("write past the end", [](Call& call) {
        static_cast<uint8_t*>(call.out.address)[call.out.bytes + 32] = 1;
        const int status = aclrtSynchronizeStream(call.stream);
        static_cast<uint8_t*>(call.out.address)[call.out.bytes + 32] = 0xA7;
        return status;
    });
}

}  // namespace

int main(int count, char**) {
    if (aclInit(nullptr) != ACL_SUCCESS || aclrtSetDevice(0) != ACL_SUCCESS) {
        return 1;
    }
    HandleMistakes();
    MemoryMistakes();
    OrderMistakes();
    ValueMistakes();
    ThreadMistakes();
    if (count > 1) {
        WritePastTheEnd();
    }
    Show("a right call after all of them", [](Call& call) { return call.Run(); });
    void* leaked = nullptr;
    aclrtMalloc(&leaked, 4096, ACL_MEM_MALLOC_HUGE_FIRST);
    aclrtResetDevice(0);
    Report("finalise with live memory", [] { return aclFinalize(); });
    Report("finalise twice", [] { return aclFinalize(); });
    return 0;
}
