// What every exported function goes through: visibility, status and message, no exception across the ABI.
#pragma once

#include <cstdint>
#include <cstring>
#include <exception>
#include <new>
#include <sstream>
#include <string>
#include <utility>

#include "acl/acl.h"
#include "aclnn/aclnn_base.h"

#define GMMFR_EXPORT extern "C" __attribute__((visibility("default")))

namespace gmmfr {

struct Failure {
    int code = 0;
    std::string message;

    explicit operator bool() const { return code != 0; }
};

template <class... Parts>
std::string text(const Parts&... parts) {
    std::ostringstream stream;
    (stream << ... << parts);
    return stream.str();
}

template <class... Parts>
Failure failure(int code, const Parts&... parts) {
    return Failure{code, text(parts...)};
}

// The number that C code passed as an enumerator. Any int may come, and one that the type has no room for must not
// be read as that type.
template <class Enum>
int number_of(const Enum& value) {
    static_assert(sizeof(Enum) == sizeof(int), "C enumerations are ints");
    int number = 0;
    std::memcpy(&number, &value, sizeof number);
    return number;
}

// Keeps the message for the thread's aclGetRecentErrMsg and gives the code back.
int report(int code, const std::string& message);
inline int report(const Failure& failed) {
    return failed.code == 0 ? 0 : report(failed.code, failed.message);
}

template <class... Parts>
int fail(int code, const Parts&... parts) {
    return report(code, text(parts...));
}

// The thread's pending message; false when there is none. The text stays valid until the next take.
const char* take_message();

// Whether a failure on order comes before the function's work, or the function asks for it itself.
enum class Faults { before, inside };
constexpr const char* kFaultText = "failure on order";

// Non-zero when this call must not go on: a process forked after use, or a failure on order.
int enter(const char* function, Faults faults);

// The exported call that this thread is in; its number counts the calls of the process.
struct Origin {
    const char* function = "";
    uint64_t number = 0;
};
Origin current_call();
std::ostream& operator<<(std::ostream& stream, const Origin& origin);

template <class Body>
int entry(const char* function, Faults faults, Body&& body) noexcept {
    try {
        if (const int code = enter(function, faults)) return code;
        return body();
    } catch (const std::bad_alloc&) {
        return fail(ACL_ERROR_BAD_ALLOC, "the host has no memory left for this call");
    } catch (const std::exception& error) {
        return fail(ACL_ERROR_INTERNAL_ERROR, "unexpected failure inside the simulator: ", error.what());
    }
}

template <class Body>
int entry(const char* function, Body&& body) noexcept {
    return entry(function, Faults::before, std::forward<Body>(body));
}

}  // namespace gmmfr
