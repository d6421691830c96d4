// Exported: the older way to call operators by name. Descriptions are accepted, so that the call itself can say which
// operator it wanted; no such operator is simulated.
#include <cstdio>

#include "entry.hpp"

using namespace gmmfr;

namespace {

// Whoever describes an operator for a call only needs distinct objects to describe it with.
struct Description {};

void* make_description() noexcept {
    return new (std::nothrow) Description;
}

void drop_description(const void* description) {
    delete static_cast<const Description*>(description);
}

}  // namespace

#define ACCEPT(name)                   \
    GMMFR_EXPORT aclError name(void) { \
        return ACL_SUCCESS;            \
    }

GMMFR_EXPORT void* aclCreateTensorDesc(void) {
    return make_description();
}

GMMFR_EXPORT void aclDestroyTensorDesc(const void* description) {
    drop_description(description);
}

GMMFR_EXPORT void* aclCreateDataBuffer(void*, size_t) {
    return make_description();
}

GMMFR_EXPORT aclError aclDestroyDataBuffer(const void* buffer) {
    drop_description(buffer);
    return ACL_SUCCESS;
}

GMMFR_EXPORT void* aclopCreateAttr(void) {
    return make_description();
}

GMMFR_EXPORT void aclopDestroyAttr(const void* attributes) {
    drop_description(attributes);
}

ACCEPT(aclSetTensorDescName)
ACCEPT(aclSetTensorFormat)
ACCEPT(aclSetTensorPlaceMent)
ACCEPT(aclSetTensorShape)
ACCEPT(aclopSetAttrBool)
ACCEPT(aclopSetAttrDataType)
ACCEPT(aclopSetAttrFloat)
ACCEPT(aclopSetAttrInt)
ACCEPT(aclopSetAttrListBool)
ACCEPT(aclopSetAttrListFloat)
ACCEPT(aclopSetAttrListInt)
ACCEPT(aclopSetAttrListListInt)
ACCEPT(aclopSetAttrString)

// Questions about a description come up in error texts of the caller only.
GMMFR_EXPORT aclError aclGetTensorDescDimV2(const void*, size_t, int64_t* extent) {
    return entry("aclGetTensorDescDimV2", [&] {
        if (extent != nullptr) *extent = 0;
        return ACL_SUCCESS;
    });
}

GMMFR_EXPORT size_t aclGetTensorDescNumDims(const void*) {
    return 0;
}

GMMFR_EXPORT aclFormat aclGetTensorDescFormat(const void*) {
    return ACL_FORMAT_UNDEFINED;
}

GMMFR_EXPORT aclDataType aclGetTensorDescType(const void*) {
    return ACL_DT_UNDEFINED;
}

GMMFR_EXPORT aclError aclopCompileAndExecute(const char* operator_name) {
    return entry("aclopCompileAndExecute", [&] {
        const char* name = operator_name == nullptr ? "without a name" : operator_name;
        std::fprintf(stderr, "gmmfr simulator: operator %s is not simulated (aclopCompileAndExecute)\n", name);
        return fail(ACL_ERROR_API_NOT_SUPPORT, "operator ", name, " is not simulated");
    });
}
