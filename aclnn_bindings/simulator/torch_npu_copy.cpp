// Exported: aclnnInplaceCopy and aclnnInplaceZero, with which torch_npu moves and clears data on the device.
#include <cstring>
#include <functional>

#include "memory.hpp"
#include "operand.hpp"
#include "ordering.hpp"
#include "runtime.hpp"
#include "tensor.hpp"
#include "transfer.hpp"

using namespace gmmfr;

namespace {

// Between the phases: what to write, and from where; no source means zeros.
struct Transfer {
    const char* name = "";
    std::shared_ptr<Tensor> target, source;
    Layout to, from;
};

Registry<Transfer>& transfers() {
    static auto* registry = new Registry<Transfer>(HandleKind::transfer);
    return *registry;
}

struct Side {
    std::byte* base = nullptr;
    std::shared_ptr<Block> block;
};

// The view of a tensor in device memory, from its first element on.
Failure open_side(const char* name, const Layout& layout, void* address, Side* side) {
    Extent extent;
    if (Failure failed = find_extent(layout, address, &extent)) return failure(failed.code, name, ": ", failed.message);
    side->base = extent.base;
    std::string why;
    side->block = device_memory().pin(extent.start, extent.bytes, &why);
    return side->block ? Failure{} : failure(ACL_ERROR_RT_AICORE_EXCEPTION, name, ": ", why);
}

void walk(const Layout& to, const Layout& from, int axis, std::byte* target, const std::byte* source, int64_t size) {
    if (axis == to.view.rank()) {
        source == nullptr ? std::memset(target, 0, size) : std::memmove(target, source, size);
        return;
    }
    for (int64_t at = 0; at < to.view[axis]; ++at) {
        walk(to, from, axis + 1, target, source, size);
        target += to.strides[axis] * size;
        if (source != nullptr) source += from.strides[axis] * size;
    }
}

Failure run_transfer(const Transfer& transfer, void* target_address, void* source_address) {
    const Layout &to = transfer.to, &from = transfer.from;
    if (to.elements() == 0) return {};
    Side target, source;
    if (Failure failed = open_side("selfRef", to, target_address, &target)) return failed;
    if (transfer.source) {
        if (Failure failed = open_side("src", from, source_address, &source)) return failed;
    }
    const int64_t size = bits_of(to.dtype) / 8;
    if (transfer.source && to.contiguous() && from.contiguous()) {
        std::memmove(target.base, source.base, to.bytes());
    } else if (!transfer.source && to.contiguous()) {
        std::memset(target.base, 0, to.bytes());
    } else {
        walk(to, from, 0, target.base, source.base, size);
    }
    return {};
}

// The source seen with the target's extents: an axis that it lacks, or has with length 1, is repeated.
Failure broadcast(const Layout& to, Layout* from) {
    Dims view = to.view, strides = to.view;
    const int missing = to.view.rank() - from->view.rank();
    for (int axis = 0; axis < to.view.rank(); ++axis) {
        const int own = axis - missing;
        const bool repeated = own < 0 || (from->view[own] == 1 && to.view[axis] != 1);
        if (missing < 0 || (!repeated && from->view[own] != to.view[axis])) {
            return failure(ACLNN_ERR_PARAM_INVALID, "src ", from->view.str(), " does not fit into selfRef ",
                           to.view.str());
        }
        strides[axis] = repeated ? 0 : from->strides[own];
    }
    from->view = view;
    from->strides = strides;
    return {};
}

Failure look_up(const char* name, const aclTensor* handle, std::shared_ptr<Tensor>* tensor, Layout* layout) {
    if (handle == nullptr) return failure(ACLNN_ERR_PARAM_NULLPTR, name, " is NULL");
    *tensor = tensors().find(handle);
    if (!*tensor) return failure(ACLNN_ERR_PARAM_INVALID, name, ": ", tensors().explain(handle));
    *layout = (*tensor)->snapshot();
    if (bits_of(layout->dtype) % 8 == 0 && bits_of(layout->dtype) > 0 && !is_private_format(layout->format)) return {};
    return failure(ACLNN_ERR_PARAM_INVALID, name, ": ", dtype_name(layout->dtype), " in ", format_name(layout->format),
                   " is not simulated");
}

Failure prepare(Transfer* transfer, const aclTensor* target, const aclTensor* source) {
    if (Failure failed = look_up("selfRef", target, &transfer->target, &transfer->to)) return failed;
    if (source == nullptr) return {};
    if (Failure failed = look_up("src", source, &transfer->source, &transfer->from)) return failed;
    if (transfer->from.dtype != transfer->to.dtype) {
        return failure(ACLNN_ERR_PARAM_INVALID, "from ", dtype_name(transfer->from.dtype), " to ",
                       dtype_name(transfer->to.dtype), " is not simulated: convert on the CPU");
    }
    return broadcast(transfer->to, &transfer->from);
}

int phase1(const char* name, const aclTensor* target, const aclTensor* source, uint64_t* workspace_size,
           aclOpExecutor** executor) {
    if (workspace_size == nullptr || executor == nullptr) {
        return fail(ACLNN_ERR_PARAM_NULLPTR, workspace_size == nullptr ? "workspaceSize" : "executor", " is NULL");
    }
    auto transfer = std::make_shared<Transfer>();
    transfer->name = name;
    if (Failure failed = prepare(transfer.get(), target, source)) {
        return report(failed);
    }
    *workspace_size = 0;
    *executor = static_cast<aclOpExecutor*>(transfers().add(std::move(transfer)));
    return ACLNN_SUCCESS;
}

// What the checking device must know: the bytes of one side, if it has any.
void add_access(const char* name, const Layout& layout, void* address, bool write, std::vector<Access>* accesses) {
    Extent extent;
    if (layout.elements() == 0 || find_extent(layout, address, &extent)) return;
    accesses->push_back({name, extent.start, extent.bytes, write, !layout.contiguous()});
}

int phase2(aclOpExecutor* handle, aclrtStream stream_handle) {
    const auto transfer = transfers().remove(handle);
    if (!transfer) return fail(ACLNN_ERR_INNER, transfers().explain(handle));
    std::shared_ptr<Stream> stream;
    if (Failure failed = find_stream(stream_handle, &stream)) {
        return fail(ACLNN_ERR_RUNTIME_ERROR, "stream: ", failed.message);
    }
    void* target = transfer->target->address.load();
    void* source = transfer->source ? transfer->source->address.load() : nullptr;
    std::vector<Access> accesses;
    add_access("selfRef", transfer->to, target, true, &accesses);
    if (transfer->source) add_access("src", transfer->from, source, false, &accesses);
    if (Failure failed = order_work(*stream, accesses)) {
        return fail(ACLNN_ERR_INNER, failed.message);
    }
    const bool taken = stream->submit({[transfer, target, source] {
        Failure failed = run_transfer(*transfer, target, source);
        if (failed) failed.message = text(transfer->name, ": ", failed.message);
        return failed;
    }});
    return taken ? ACLNN_SUCCESS : fail(ACLNN_ERR_RUNTIME_ERROR, "stream: it is being destroyed");
}

}  // namespace

namespace gmmfr {

bool destroy_transfer(const void* executor) {
    return transfers().remove(executor) != nullptr;
}

uint64_t live_transfers() {
    return transfers().live();
}

void list_live_transfers(std::vector<std::string>* words) {
    transfers().list_live(words);
}

}  // namespace gmmfr

GMMFR_EXPORT aclnnStatus aclnnInplaceCopyGetWorkspaceSize(aclTensor* selfRef, const aclTensor* src,
                                                          uint64_t* workspaceSize, aclOpExecutor** executor) {
    return entry("aclnnInplaceCopyGetWorkspaceSize", [&] {
        if (src == nullptr) return fail(ACLNN_ERR_PARAM_NULLPTR, "aclnnInplaceCopy: src is NULL");
        return phase1("aclnnInplaceCopy", selfRef, src, workspaceSize, executor);
    });
}

GMMFR_EXPORT aclnnStatus aclnnInplaceCopy(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                          aclrtStream stream) {
    (void)workspace;
    (void)workspaceSize;
    return entry("aclnnInplaceCopy", [&] { return phase2(executor, stream); });
}

GMMFR_EXPORT aclnnStatus aclnnInplaceZeroGetWorkspaceSize(aclTensor* selfRef, uint64_t* workspaceSize,
                                                          aclOpExecutor** executor) {
    return entry("aclnnInplaceZeroGetWorkspaceSize",
                 [&] { return phase1("aclnnInplaceZero", selfRef, nullptr, workspaceSize, executor); });
}

GMMFR_EXPORT aclnnStatus aclnnInplaceZero(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                          aclrtStream stream) {
    (void)workspace;
    (void)workspaceSize;
    return entry("aclnnInplaceZero", [&] { return phase2(executor, stream); });
}
