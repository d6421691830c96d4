// Exported: control and inspection of the simulator.
#include "gmmfr_simulator.h"

#include "checking.hpp"
#include "executor.hpp"
#include "faults.hpp"
#include "runtime.hpp"
#include "soc.hpp"
#include "thread_pool.hpp"
#include "trace.hpp"
#include "transfer.hpp"

using namespace gmmfr;

GMMFR_EXPORT int gmmfrSimSetSocName(const char* name) {
    return entry("gmmfrSimSetSocName", [&] {
        const Soc* soc = name == nullptr ? nullptr : find_soc(name);
        if (name != nullptr && soc == nullptr) {
            return fail(ACL_ERROR_INVALID_PARAM, "\"", name,
                        "\" is no known SoC; expected for example Ascend910B2, Ascend910_9391 or Ascend950PR_9579");
        }
        choose_soc(soc);
        return ACL_SUCCESS;
    });
}

GMMFR_EXPORT int gmmfrSimGetStatistics(gmmfrSimStatistics* statistics) {
    return entry("gmmfrSimGetStatistics", [&] {
        if (statistics == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "statistics is NULL");
        const MemoryStatistics memory = device_memory().statistics();
        statistics->liveBytes = memory.live_bytes;
        statistics->peakBytes = memory.peak_bytes;
        statistics->liveAllocations = memory.live_allocations;
        statistics->liveHostAllocations = host_memory().statistics().live_allocations;
        statistics->liveTensors = tensors().live();
        statistics->liveIntArrays = int_arrays().live();
        statistics->liveExecutors = executors().live() + live_transfers();
        statistics->liveStreams = runtime().streams.live();
        statistics->liveEvents = runtime().events.live();
        statistics->liveContexts = runtime().contexts.live() - runtime().primary_contexts();
        statistics->phase1Calls = phase1_calls();
        statistics->cacheHits = cache_hits();
        statistics->kernelsRun = runtime().kernels_run.load();
        return ACL_SUCCESS;
    });
}

GMMFR_EXPORT int gmmfrSimResetStatistics(void) {
    return entry("gmmfrSimResetStatistics", [] {
        device_memory().reset_peak();
        reset_phase1_counts();
        runtime().kernels_run = 0;
        return ACL_SUCCESS;
    });
}

GMMFR_EXPORT int gmmfrSimSetOldCacheKey(bool old) {
    return entry("gmmfrSimSetOldCacheKey", [&] {
        set_old_cache_key(old);
        return ACL_SUCCESS;
    });
}

GMMFR_EXPORT int gmmfrSimClearCache(void) {
    return entry("gmmfrSimClearCache", [] {
        thread_plan_cache()->clear();
        return ACL_SUCCESS;
    });
}

GMMFR_EXPORT const char* gmmfrSimLastCall(void) {
    return last_call();
}

GMMFR_EXPORT int gmmfrSimSetChecks(bool on) {
    return entry("gmmfrSimSetChecks", [&] {
        set_checking(on);
        return ACL_SUCCESS;
    });
}

GMMFR_EXPORT int gmmfrSimSetFaults(const char* orders) {
    return entry("gmmfrSimSetFaults", [&] {
        if (set_faults(orders)) return ACL_SUCCESS;
        return fail(ACL_ERROR_INVALID_PARAM, "orders: expected function:n:code[,...], got \"", orders, "\"");
    });
}

GMMFR_EXPORT int gmmfrSimSetShuffle(uint64_t seed) {
    return entry("gmmfrSimSetShuffle", [&] {
        set_shuffle_seed(seed);
        return ACL_SUCCESS;
    });
}

GMMFR_EXPORT uint32_t gmmfrSimThreads(void) {
    return ThreadPool::shared().threads();
}
