#include "ordering.hpp"

#include <algorithm>
#include <map>

#include "checking.hpp"
#include "operand.hpp"

namespace gmmfr {
namespace {

constexpr size_t kMostRecords = 256;  // of one allocation; the oldest go first

struct Record {
    uintptr_t begin, end;
    bool write, gaps;
    uint64_t stream, number;
    std::string what;
};

struct Orders {
    std::mutex mutex;
    VectorClock host;
    std::map<uint64_t, VectorClock> streams;
    std::map<uintptr_t, std::vector<Record>> records;  // by the start of the allocation
};

Orders& orders() {
    static auto* instance = new Orders;
    return *instance;
}

void merge(VectorClock* into, const VectorClock& from) {
    for (const auto& [stream, number] : from) {
        uint64_t& known = (*into)[stream];
        known = std::max(known, number);
    }
}

bool over(const VectorClock& clock, const Record& record) {
    const auto found = clock.find(record.stream);
    return found != clock.end() && found->second >= record.number;
}

Record record_of(const Access& access) {
    const auto begin = reinterpret_cast<uintptr_t>(access.address);
    return {begin, begin + access.bytes, access.write, access.gaps, 0, 0, {}};
}

// Whether both certainly use the same bytes: a view with gaps may have the other in one of them.
bool touch(const Access& access, const Record& record) {
    const auto begin = reinterpret_cast<uintptr_t>(access.address), end = begin + access.bytes;
    if (record.begin >= end || begin >= record.end) return false;
    if (access.gaps && record.gaps) return false;
    if (access.gaps) return record.begin <= begin && end <= record.end;
    return !record.gaps || (begin <= record.begin && record.end <= end);
}

Failure conflict(const Access& access, const Record& record) {
    return failure(ACL_ERROR_RT_PARAM_INVALID, access.name, ": ", access.write ? "writing" : "reading", " ",
                   access.bytes, " bytes at ", access.address, " may happen while ", record.what, " ",
                   record.write ? "writes" : "reads",
                   " them: nothing orders the two (record an event and wait for "
                   "it, or synchronise)");
}

Failure check_access(Orders& all, const VectorClock& clock, const Access& access, std::vector<Record>** list) {
    std::string why;
    const auto block = device_memory().pin(access.address, access.bytes, &why);
    *list = nullptr;
    if (!block) return {};  // execution says so
    *list = &all.records[reinterpret_cast<uintptr_t>(block->data())];
    for (const Record& record : **list) {
        if ((record.write || access.write) && !over(clock, record) && touch(access, record)) {
            return conflict(access, record);
        }
    }
    return {};
}

void remember(Orders& all, std::vector<Record>& list, const Access& access, uint64_t stream, uint64_t number) {
    const auto begin = reinterpret_cast<uintptr_t>(access.address), end = begin + access.bytes;
    const auto useless = [&](const Record& record) {
        const bool covered = !access.gaps && record.stream == stream && begin <= record.begin && record.end <= end &&
                             (access.write || !record.write);
        return covered || over(all.host, record);
    };
    list.erase(std::remove_if(list.begin(), list.end(), useless), list.end());
    if (list.size() >= kMostRecords) list.erase(list.begin());
    list.push_back({begin, end, access.write, access.gaps, stream, number, text(access.name, " of ", current_call())});
}

}  // namespace

Failure order_work(const Stream& stream, const std::vector<Access>& accesses) {
    if (!checking()) return {};
    Orders& all = orders();
    std::lock_guard<std::mutex> lock(all.mutex);
    VectorClock& clock = all.streams[stream.id()];
    merge(&clock, all.host);
    std::vector<std::vector<Record>*> lists(accesses.size());
    for (size_t i = 0; i < accesses.size(); ++i) {
        if (Failure failed = check_access(all, clock, accesses[i], &lists[i])) return failed;
    }
    const uint64_t number = ++clock[stream.id()];
    for (size_t i = 0; i < accesses.size(); ++i) {
        if (lists[i] != nullptr) remember(all, *lists[i], accesses[i], stream.id(), number);
    }
    return {};
}

Failure order_host_work(const std::vector<Access>& accesses) {
    if (!checking()) return {};
    Orders& all = orders();
    std::lock_guard<std::mutex> lock(all.mutex);
    for (const Access& access : accesses) {
        std::vector<Record>* list = nullptr;
        if (Failure failed = check_access(all, all.host, access, &list)) return failed;
    }
    return {};
}

Failure order_free(const void* address) {
    if (!checking()) return {};
    Orders& all = orders();
    std::lock_guard<std::mutex> lock(all.mutex);
    const auto found = all.records.find(reinterpret_cast<uintptr_t>(address));
    if (found == all.records.end()) return {};
    const std::vector<Record> records = std::move(found->second);
    all.records.erase(found);
    for (const Record& record : records) {
        if (over(all.host, record)) continue;
        return failure(ACL_ERROR_RT_MEMORY_FREE, "memory at ", address, " is freed while ", record.what, " may still ",
                       record.write ? "write" : "read", " it: synchronise the stream first (the memory is freed now)");
    }
    return {};
}

void order_record(const Stream& stream, Mark& mark) {
    if (!checking()) return;
    Orders& all = orders();
    std::lock_guard<std::mutex> lock(all.mutex);
    VectorClock& clock = all.streams[stream.id()];
    merge(&clock, all.host);
    mark.clock = clock;
}

void order_wait(const Stream& stream, const Mark& mark) {
    if (!checking()) return;
    Orders& all = orders();
    std::lock_guard<std::mutex> lock(all.mutex);
    merge(&all.streams[stream.id()], mark.clock);
}

void order_synchronize(const Stream& stream) {
    if (!checking()) return;
    Orders& all = orders();
    std::lock_guard<std::mutex> lock(all.mutex);
    merge(&all.host, all.streams[stream.id()]);
}

void order_synchronize(const Mark& mark) {
    if (!checking()) return;
    Orders& all = orders();
    std::lock_guard<std::mutex> lock(all.mutex);
    merge(&all.host, mark.clock);
}

void order_end(const Stream& stream) {
    Orders& all = orders();
    std::lock_guard<std::mutex> lock(all.mutex);
    all.streams.erase(stream.id());
    all.host.erase(stream.id());
    for (auto& [other, clock] : all.streams) clock.erase(stream.id());
    const auto ended = [&](const Record& record) { return record.stream == stream.id(); };
    for (auto& [block, list] : all.records) list.erase(std::remove_if(list.begin(), list.end(), ended), list.end());
}

std::vector<Access> accesses_of(const Launch& launch) {
    std::vector<Access> accesses;
    const Plan& plan = *launch.plan;
    if (!checking() || plan.path == Path::none) return accesses;
    for (int argument = 0; argument < kArguments; ++argument) {
        if (!plan.present[argument]) continue;
        Extent extent;
        const Failure failed = find_extent(plan.layouts[argument], launch.addresses[argument], &extent);
        if (failed || extent.bytes == 0) continue;
        const Layout& layout = plan.layouts[argument];
        const bool consumed = argument == kX1 && plan.path == Path::w4a8 && layout.contiguous();
        const bool written = argument == kOut || consumed;
        const bool gaps = !is_nz(layout.format) && layout.bytes() < extent.bytes;
        accesses.push_back({argument_name(static_cast<Argument>(argument)), extent.start, extent.bytes, written, gaps});
    }
    if (plan.workspace > 0) accesses.push_back({"workspace", launch.workspace, launch.workspace_size, true});
    return accesses;
}

Failure check_overlap(const Launch& launch) {
    std::vector<Access> accesses = accesses_of(launch);
    const auto lost = [](const Access& access) {  // execution says so
        std::string why;
        return device_memory().pin(access.address, access.bytes, &why) == nullptr;
    };
    accesses.erase(std::remove_if(accesses.begin(), accesses.end(), lost), accesses.end());
    for (const Access& written : accesses) {
        if (!written.write) continue;
        for (const Access& other : accesses) {
            if (&other == &written || !touch(written, record_of(other))) continue;
            return failure(ACL_ERROR_RT_PARAM_INVALID, written.name, ": the kernel writes ", written.bytes,
                           " bytes at ", written.address, ", which overlap ", other.bytes, " bytes of ", other.name,
                           " at ", other.address, ": give each memory of its own");
        }
    }
    return {};
}

}  // namespace gmmfr
