#include "executor.hpp"

#include <cstdlib>

namespace gmmfr {
namespace {

constexpr long kDefaultCapacity = 10000;

// Both variables are read once, before the first phase 1.
size_t capacity() {
    static const size_t limit = [] {
        if (std::getenv("DISABLE_L2_CACHE") != nullptr) return size_t{0};
        const char* words = std::getenv("ACLNN_CACHE_LIMIT");
        if (words == nullptr) return static_cast<size_t>(kDefaultCapacity);
        char* end = nullptr;
        const long value = std::strtol(words, &end, 10);
        return static_cast<size_t>(end == words || *end != '\0' || value < 0 ? kDefaultCapacity : value);
    }();
    return limit;
}

std::atomic<bool>& old_key_flag() {
    static std::atomic<bool> flag{[] {
        const char* words = std::getenv("GMMFR_SIM_OLD_CACHE_KEY");
        return words != nullptr && std::string(words) == "1";
    }()};
    return flag;
}

template <class Value>
void append(std::string& key, const Value& value) {
    key.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void append(std::string& key, const Dims& dims) {
    append(key, dims.rank());
    key.append(reinterpret_cast<const char*>(dims.begin()), sizeof(int64_t) * static_cast<size_t>(dims.rank()));
}

void append(std::string& key, const Layout& layout) {
    append(key, layout.view);
    append(key, layout.strides);
    append(key, layout.storage);
    append(key, layout.offset);
    append(key, static_cast<int>(layout.dtype));
    append(key, static_cast<int>(layout.format));
}

bool left_out_of_old_key(int argument) {
    return argument == kOffset || argument == kAntiquantScale || argument == kAntiquantOffset;
}

}  // namespace

std::shared_ptr<const Plan> PlanCache::find(const std::string& key) {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = by_key_.find(key);
    if (found == by_key_.end()) return nullptr;
    recent_.splice(recent_.begin(), recent_, found->second);
    return found->second->second;
}

void PlanCache::put(const std::string& key, std::shared_ptr<const Plan> plan) {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = by_key_.find(key);
    if (found != by_key_.end()) return;
    recent_.emplace_front(key, std::move(plan));
    by_key_[key] = recent_.begin();
    if (recent_.size() > capacity()) {
        by_key_.erase(recent_.back().first);
        recent_.pop_back();
    }
}

void PlanCache::clear() {
    std::lock_guard<std::mutex> lock(mutex_);
    by_key_.clear();
    recent_.clear();
}

std::shared_ptr<PlanCache> thread_plan_cache() {
    thread_local const auto cache = std::make_shared<PlanCache>();
    return cache;
}

bool plan_cache_enabled() {
    return capacity() > 0;
}

std::string plan_key(const Call& call) {
    const bool old = old_cache_key();
    std::string key;
    key.reserve(2048);
    append(key, call.soc);
    append(key, old);
    append(key, call.deterministic);
    for (int argument = 0; argument < kArguments; ++argument) {
        if (old && left_out_of_old_key(argument)) continue;
        const bool present = call.tensors[argument] != nullptr;
        append(key, present);
        if (present) append(key, call.layouts[argument]);
    }
    const Attributes& attributes = call.attributes;
    append(key, attributes.dtype);
    append(key, attributes.shared_input_weight);
    append(key, attributes.shared_input_offset);
    append(key, attributes.transpose_x1);
    append(key, attributes.transpose_x2);
    append(key, attributes.group_list_type);
    if (old) return key;
    append(key, call.tuning_config != nullptr);
    if (call.tuning_config) {
        for (const int64_t value : *call.tuning_config) append(key, value);
    }
    return key;
}

bool old_cache_key() {
    return old_key_flag().load(std::memory_order_relaxed);
}

void set_old_cache_key(bool old) {
    old_key_flag().store(old);
}

Registry<Executor>& executors() {
    static auto* registry = new Registry<Executor>(HandleKind::executor);
    return *registry;
}

}  // namespace gmmfr
