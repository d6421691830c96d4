// What phase 1 hands to phase 2.
#pragma once

#include <list>
#include <memory>
#include <unordered_map>

#include "call.hpp"

namespace gmmfr {

// Phase-1 results of one thread, by the key of the call. Filled when phase 2 succeeds.
class PlanCache {
public:
    std::shared_ptr<const Plan> find(const std::string& key);
    void put(const std::string& key, std::shared_ptr<const Plan> plan);
    void clear();

private:
    using Entry = std::pair<std::string, std::shared_ptr<const Plan>>;
    std::mutex mutex_;
    std::list<Entry> recent_;  // most recent first
    std::unordered_map<std::string, std::list<Entry>::iterator> by_key_;
};

std::shared_ptr<PlanCache> thread_plan_cache();
// False under DISABLE_L2_CACHE or with a capacity of 0.
bool plan_cache_enabled();
// Key of a call, before anything is rewritten; "" when the call must not be cached.
std::string plan_key(const Call& call);

bool old_cache_key();
void set_old_cache_key(bool old);

struct Executor {
    std::shared_ptr<const Plan> plan;
    std::array<std::shared_ptr<Tensor>, kArguments> tensors;
    std::array<const void*, kArguments> handles{};
    std::weak_ptr<PlanCache> cache;
    std::string key;
    bool cache_hit = false;
    std::atomic<bool> repeatable{false};
};

Registry<Executor>& executors();

}  // namespace gmmfr
