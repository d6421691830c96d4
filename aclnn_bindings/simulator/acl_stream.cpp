// Exported: streams and events.
#include "checking.hpp"
#include "ordering.hpp"
#include "runtime.hpp"

using namespace gmmfr;

namespace {

int create_stream(aclrtStream* stream) {
    if (stream == nullptr) return fail(ACL_ERROR_RT_PARAM_INVALID, "stream is NULL");
    const auto context = current_context();
    if (!context) return report(no_context());
    *stream = runtime().streams.add(std::make_shared<Stream>(context->device()));
    return ACL_SUCCESS;
}

int destroy_stream(aclrtStream handle, bool drop_queued) {
    if (handle == nullptr) {
        return fail(ACL_ERROR_RT_PARAM_INVALID, "stream is NULL: the default stream cannot be destroyed");
    }
    const auto stream = runtime().streams.remove(handle);
    if (!stream) return fail(ACL_ERROR_RT_INVALID_HANDLE, runtime().streams.explain(handle));
    stream->close(drop_queued);
    order_synchronize(*stream);
    return ACL_SUCCESS;
}

int synchronize_stream(aclrtStream handle, int32_t timeout) {
    if (timeout < -1) {
        return fail(ACL_ERROR_RT_PARAM_INVALID, "timeout: expected milliseconds or -1, got ", timeout);
    }
    std::shared_ptr<Stream> stream;
    if (Failure failed = find_stream(handle, &stream)) return report(failed);
    const Failure failed = stream->synchronize(timeout);
    if (failed.code != ACL_ERROR_RT_STREAM_SYNC_TIMEOUT) order_synchronize(*stream);
    if (failed) return report(failed);
    return checking() ? report(device_memory().check_guards()) : ACL_SUCCESS;
}

int create_event(aclrtEvent* event) {
    if (event == nullptr) return fail(ACL_ERROR_RT_PARAM_INVALID, "event is NULL");
    if (!current_context()) return report(no_context());
    *event = runtime().events.add(std::make_shared<Event>());
    return ACL_SUCCESS;
}

Failure find_event(aclrtEvent handle, std::shared_ptr<Event>* event) {
    *event = runtime().events.find(handle);
    return *event ? Failure{} : failure(ACL_ERROR_RT_INVALID_HANDLE, runtime().events.explain(handle));
}

Failure find_both(aclrtEvent event_handle, aclrtStream stream_handle, std::shared_ptr<Event>* event,
                  std::shared_ptr<Stream>* stream) {
    if (Failure failed = find_event(event_handle, event)) return failed;
    return find_stream(stream_handle, stream);
}

int submit(Stream& stream, std::function<Failure()> run) {
    if (stream.submit({std::move(run), true})) return ACL_SUCCESS;
    return fail(ACL_ERROR_RT_INVALID_HANDLE, "the stream is being destroyed");
}

// The time at which a recorded event was passed.
Failure time_of(const char* name, aclrtEvent handle, Clock::time_point* time) {
    std::shared_ptr<Event> event;
    if (Failure failed = find_event(handle, &event)) return failed;
    const auto mark = event->last();
    if (!mark || !mark->reached()) {
        return failure(ACL_ERROR_RT_PARAM_INVALID, name, mark ? " is not reached yet" : " was never recorded");
    }
    *time = mark->time();
    return {};
}

}  // namespace

GMMFR_EXPORT aclError aclrtCreateStream(aclrtStream* stream) {
    return entry("aclrtCreateStream", [&] { return create_stream(stream); });
}

GMMFR_EXPORT aclError aclrtCreateStreamWithConfig(aclrtStream* stream, uint32_t priority, uint32_t flag) {
    (void)priority;
    (void)flag;
    return entry("aclrtCreateStreamWithConfig", [&] { return create_stream(stream); });
}

GMMFR_EXPORT aclError aclrtDestroyStream(aclrtStream stream) {
    return entry("aclrtDestroyStream", [&] { return destroy_stream(stream, false); });
}

GMMFR_EXPORT aclError aclrtDestroyStreamForce(aclrtStream stream) {
    return entry("aclrtDestroyStreamForce", [&] { return destroy_stream(stream, true); });
}

GMMFR_EXPORT aclError aclrtSynchronizeStream(aclrtStream stream) {
    return entry("aclrtSynchronizeStream", [&] { return synchronize_stream(stream, -1); });
}

GMMFR_EXPORT aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t timeout) {
    return entry("aclrtSynchronizeStreamWithTimeout", [&] { return synchronize_stream(stream, timeout); });
}

GMMFR_EXPORT aclError aclrtStreamQuery(aclrtStream stream, aclrtStreamStatus* status) {
    return entry("aclrtStreamQuery", [&] {
        if (status == nullptr) return fail(ACL_ERROR_RT_PARAM_INVALID, "status is NULL");
        std::shared_ptr<Stream> found;
        if (Failure failed = find_stream(stream, &found)) return report(failed);
        const bool idle = found->idle();
        if (idle) order_synchronize(*found);
        *status = idle ? ACL_STREAM_STATUS_COMPLETE : ACL_STREAM_STATUS_NOT_READY;
        return ACL_SUCCESS;
    });
}

GMMFR_EXPORT aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event) {
    return entry("aclrtStreamWaitEvent", [&] {
        std::shared_ptr<Event> found;
        std::shared_ptr<Stream> waiting;
        if (Failure failed = find_both(event, stream, &found, &waiting)) return report(failed);
        const auto mark = found->last();
        if (!mark) return ACL_SUCCESS;  // nothing recorded: nothing to wait for
        order_wait(*waiting, *mark);
        return submit(*waiting, [mark] {
            mark->wait(Deadline(-1));
            return Failure{};
        });
    });
}

GMMFR_EXPORT aclError aclrtCreateEvent(aclrtEvent* event) {
    return entry("aclrtCreateEvent", [&] { return create_event(event); });
}

GMMFR_EXPORT aclError aclrtCreateEventWithFlag(aclrtEvent* event, uint32_t flag) {
    (void)flag;
    return entry("aclrtCreateEventWithFlag", [&] { return create_event(event); });
}

GMMFR_EXPORT aclError aclrtCreateEventExWithFlag(aclrtEvent* event, uint32_t flag) {
    (void)flag;
    return entry("aclrtCreateEventExWithFlag", [&] { return create_event(event); });
}

GMMFR_EXPORT aclError aclrtDestroyEvent(aclrtEvent event) {
    return entry("aclrtDestroyEvent", [&] {
        if (runtime().events.remove(event)) return ACL_SUCCESS;
        return fail(ACL_ERROR_RT_INVALID_HANDLE, runtime().events.explain(event));
    });
}

GMMFR_EXPORT aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream) {
    return entry("aclrtRecordEvent", [&] {
        std::shared_ptr<Event> found;
        std::shared_ptr<Stream> recorded;
        if (Failure failed = find_both(event, stream, &found, &recorded)) return report(failed);
        auto mark = std::make_shared<Mark>();
        order_record(*recorded, *mark);
        const int code = submit(*recorded, [mark] {
            mark->reach();
            return Failure{};
        });
        if (code == ACL_SUCCESS) found->record(std::move(mark));
        return code;
    });
}

GMMFR_EXPORT aclError aclrtResetEvent(aclrtEvent event, aclrtStream stream) {
    return entry("aclrtResetEvent", [&] {
        std::shared_ptr<Event> found;
        std::shared_ptr<Stream> owner;
        if (Failure failed = find_both(event, stream, &found, &owner)) return report(failed);
        found->record(nullptr);
        return ACL_SUCCESS;
    });
}

GMMFR_EXPORT aclError aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus* status) {
    return entry("aclrtQueryEventStatus", [&] {
        if (status == nullptr) return fail(ACL_ERROR_RT_PARAM_INVALID, "status is NULL");
        std::shared_ptr<Event> found;
        if (Failure failed = find_event(event, &found)) return report(failed);
        const auto mark = found->last();
        const bool reached = mark && mark->reached();
        if (reached) order_synchronize(*mark);
        *status = reached ? ACL_EVENT_RECORDED_STATUS_COMPLETE : ACL_EVENT_RECORDED_STATUS_NOT_READY;
        return ACL_SUCCESS;
    });
}

GMMFR_EXPORT aclError aclrtSynchronizeEvent(aclrtEvent event) {
    return entry("aclrtSynchronizeEvent", [&] {
        std::shared_ptr<Event> found;
        if (Failure failed = find_event(event, &found)) return report(failed);
        if (const auto mark = found->last()) {
            mark->wait(Deadline(-1));
            order_synchronize(*mark);
        }
        return ACL_SUCCESS;
    });
}

GMMFR_EXPORT aclError aclrtEventElapsedTime(float* ms, aclrtEvent startEvent, aclrtEvent endEvent) {
    return entry("aclrtEventElapsedTime", [&] {
        if (ms == nullptr) return fail(ACL_ERROR_RT_PARAM_INVALID, "ms is NULL");
        Clock::time_point start, end;
        if (Failure failed = time_of("startEvent", startEvent, &start)) return report(failed);
        if (Failure failed = time_of("endEvent", endEvent, &end)) return report(failed);
        *ms = std::chrono::duration<float, std::milli>(end - start).count();
        return ACL_SUCCESS;
    });
}
