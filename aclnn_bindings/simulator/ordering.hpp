// The checking device's view of time: which queued work is certainly over when other work may start. Work of one
// stream is in order; an event that was recorded and waited for orders two streams; a synchronise orders the
// host. Two accesses to the same bytes, one of them a write, that nothing orders are a finding, however the
// threads happened to run this time. All host threads count as one, so none is reported that is not there.
#pragma once

#include <vector>

#include "kernel.hpp"
#include "stream.hpp"

namespace gmmfr {

struct Access {
    const char* name;  // of the argument
    const void* address;
    size_t bytes;
    bool write;
    bool gaps = false;  // a view that leaves bytes in between alone
};

// Work put on a stream; not put there when it is a finding.
Failure order_work(const Stream& stream, const std::vector<Access>& accesses);
// Work that the host does itself, at once.
Failure order_host_work(const std::vector<Access>& accesses);
// Memory about to be freed: no queued work may still use it. Forgets what was known of it.
Failure order_free(const void* address);

void order_record(const Stream& stream, Mark& mark);
void order_wait(const Stream& stream, const Mark& mark);
void order_synchronize(const Stream& stream);
void order_synchronize(const Mark& mark);
// A stream that has ended: its work is over for everyone, and its number never comes back.
void order_end(const Stream& stream);

// The bytes that a launch reads and writes.
std::vector<Access> accesses_of(const Launch& launch);
// What one launch writes and what else it reads or writes must be apart.
Failure check_overlap(const Launch& launch);

}  // namespace gmmfr
