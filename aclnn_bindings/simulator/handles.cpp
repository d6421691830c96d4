#include "handles.hpp"

namespace gmmfr {

static_assert(sizeof(void*) == 8, "handles need 64-bit pointers");

const char* handle_noun(HandleKind kind) {
    switch (kind) {
        case HandleKind::context: return "context";
        case HandleKind::stream: return "stream";
        case HandleKind::event: return "event";
        case HandleKind::tensor: return "aclTensor";
        case HandleKind::int_array: return "aclIntArray";
        case HandleKind::executor: return "aclOpExecutor";
        case HandleKind::transfer: return "aclOpExecutor of a copy";
    }
    return "handle";
}

uint64_t handle_kind(const void* handle) {
    const auto bits = reinterpret_cast<uint64_t>(handle);
    if ((bits >> 56) != 0x5A || (bits & 0xF) != 0) return 0;
    const uint64_t kind = (bits >> 52) & 0xF;
    return kind >= 1 && kind <= static_cast<uint64_t>(HandleKind::transfer) ? kind : 0;
}

}  // namespace gmmfr
