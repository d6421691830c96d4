/* Control and inspection of the CPU simulator; a vendor library has none of these. */
#ifndef GMMFR_SIMULATOR_H_
#define GMMFR_SIMULATOR_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gmmfrSimStatistics {
    uint64_t liveBytes;
    uint64_t peakBytes;
    uint64_t liveAllocations;
    uint64_t liveHostAllocations;
    uint64_t liveTensors;
    uint64_t liveIntArrays;
    uint64_t liveExecutors;
    uint64_t liveStreams;
    uint64_t liveEvents;
    uint64_t liveContexts;
    uint64_t phase1Calls;
    uint64_t cacheHits;
    uint64_t kernelsRun;
} gmmfrSimStatistics;

/*
 * The SoC that the calling thread sees, e.g. "Ascend910B2"; NULL goes back to the process default
 * (environment variable GMMFR_SIM_SOC, else Ascend950PR_9579). 100000 for a name that is not known.
 */
int gmmfrSimSetSocName(const char* name);

/* liveExecutors counts those of copies and of zeroing as well. Live objects include the runtime's own default streams
 * and contexts only when a caller made them. */
int gmmfrSimGetStatistics(gmmfrSimStatistics* statistics);
/* Counters of calls to zero, peakBytes to liveBytes. */
int gmmfrSimResetStatistics(void);

/*
 * Phase-1 cache of the calling process: true builds its key as libraries before the middle of 2026 did,
 * without offset, antiquantScale, antiquantOffset and tuningConfig. Default false (GMMFR_SIM_OLD_CACHE_KEY=1).
 */
int gmmfrSimSetOldCacheKey(bool old);
/* Forgets the calling thread's cached phase-1 results. */
int gmmfrSimClearCache(void);

/*
 * JSON of every argument that the last phase-1 call of the calling thread received, as it arrived. Valid
 * until the thread's next phase-1 call; NULL before the first.
 */
const char* gmmfrSimLastCall(void);

/*
 * The checking device (environment variable GMMFR_SIM_CHECK=1): guard bytes and poison around allocations made
 * from now on, guards looked at when memory is freed and streams are synchronised, addresses not aligned to 32
 * bytes and views beyond their storage refused at execution, live objects listed by the last aclFinalize.
 */
int gmmfrSimSetChecks(bool on);

/*
 * Failures on order, "function:n:code[,...]": the n-th call of function from now on returns code without doing
 * its work, each order counting all calls; a phase 2 still takes its executor. NULL or "" for none (environment
 * variable GMMFR_SIM_FAULT).
 */
int gmmfrSimSetFaults(const char* orders);

/*
 * Order in which rows are added into out where a device leaves it open (not in deterministic mode on Atlas
 * A2/A3): 0 in row order, else shuffled by this seed (environment variable GMMFR_SIM_SHUFFLE).
 */
int gmmfrSimSetShuffle(uint64_t seed);

/* Worker threads that a kernel uses (environment variable GMMFR_SIM_THREADS, else all cores). */
uint32_t gmmfrSimThreads(void);

#ifdef __cplusplus
}
#endif

#endif
