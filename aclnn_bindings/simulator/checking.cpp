#include "checking.hpp"

#include <cstdio>
#include <cstdlib>

#include "executor.hpp"
#include "memory.hpp"
#include "runtime.hpp"
#include "transfer.hpp"

namespace gmmfr {
namespace {

constexpr uintptr_t kDataAlignment = 32;
constexpr size_t kMostListed = 20;
constexpr int64_t kInt4PerInt32 = 8;

uint64_t number_from_environment(const char* variable) {
    const char* words = std::getenv(variable);
    if (words == nullptr || *words == '\0') return 0;
    char* end = nullptr;
    const unsigned long long value = std::strtoull(words, &end, 10);
    if (*end != '\0') {
        std::fprintf(stderr, "%s: expected a number, got \"%s\"\n", variable, words);
        std::abort();
    }
    return value;
}

std::atomic<bool>& checking_flag() {
    static std::atomic<bool> flag{number_from_environment("GMMFR_SIM_CHECK") != 0};
    return flag;
}

std::atomic<uint64_t>& seed() {
    static std::atomic<uint64_t> value{number_from_environment("GMMFR_SIM_SHUFFLE")};
    return value;
}

// Elements that the storage shape holds; that of a re-labelled INT4 weight still counts INT32 words.
bool storage_elements(const Layout& layout, int64_t* elements) {
    *elements = layout.dtype == ACL_INT4 ? kInt4PerInt32 : 1;
    for (const int64_t extent : layout.storage) {
        if (__builtin_mul_overflow(*elements, extent, elements)) return false;
    }
    return layout.storage.rank() > 0;
}

}  // namespace

bool checking() {
    return checking_flag().load(std::memory_order_relaxed);
}

void set_checking(bool on) {
    checking_flag().store(on);
}

uint64_t shuffle_seed() {
    return seed().load(std::memory_order_relaxed);
}

void set_shuffle_seed(uint64_t value) {
    seed().store(value);
}

Failure check_descriptor(const char* name, const Layout& layout, const void* storage, int64_t lowest, int64_t highest) {
    if (reinterpret_cast<uintptr_t>(storage) % kDataAlignment != 0) {
        return failure(ACL_ERROR_RT_ADDR_UNALIGNED, name, ": data address ", storage, " is not aligned to ",
                       kDataAlignment, " bytes");
    }
    int64_t elements = 0;
    if (is_nz(layout.format) || !storage_elements(layout, &elements)) return {};
    if (layout.offset + lowest >= 0 && layout.offset + highest < elements) return {};
    return failure(ACL_ERROR_RT_AICORE_EXCEPTION, name, ": the view ", layout.view.str(), " with strides ",
                   layout.strides.str(), " and offset ", layout.offset, " reaches elements ", layout.offset + lowest,
                   " to ", layout.offset + highest, "; its storage ", layout.storage.str(), " has ", elements);
}

Failure find_leaks() {
    std::vector<std::string> live;
    device_memory().list_live("device memory", &live);
    host_memory().list_live("host memory", &live);
    tensors().list_live(&live);
    int_arrays().list_live(&live);
    executors().list_live(&live);
    list_live_transfers(&live);
    runtime().streams.list_live(&live);
    runtime().events.list_live(&live);
    if (live.empty()) return {};
    std::string words = text(live.size(), " objects are still alive:");
    for (size_t i = 0; i < live.size() && i < kMostListed; ++i) words += "\n  " + live[i];
    if (live.size() > kMostListed) words += text("\n  and ", live.size() - kMostListed, " more");
    return Failure{ACL_ERROR_RELATIVE_RESOURCE_NOT_CLEARED, words};
}

}  // namespace gmmfr
