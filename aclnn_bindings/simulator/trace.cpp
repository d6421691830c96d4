#include "trace.hpp"

#include <cmath>
#include <iomanip>

namespace gmmfr {
namespace {

// Kept as data: most calls are never looked at, so the text is made on demand.
struct Last {
    bool any = false;
    Call call;
    std::array<const void*, kArguments> addresses{};
    std::string words;
};

thread_local Last last;
std::atomic<uint64_t> calls{0};
std::atomic<uint64_t> hits{0};

std::string list(const int64_t* begin, const int64_t* end) {
    std::string words = "[";
    for (const int64_t* at = begin; at != end; ++at) words += (at == begin ? "" : ", ") + std::to_string(*at);
    return words + "]";
}

std::string number(float value) {
    if (!std::isfinite(value)) return std::isnan(value) ? "\"nan\"" : value > 0 ? "\"inf\"" : "\"-inf\"";
    std::ostringstream stream;
    stream << std::setprecision(9) << value;
    return stream.str();
}

std::string describe(const Layout& layout, const void* address) {
    return text("{\"shape\": ", list(layout.view.begin(), layout.view.end()),
                ", \"strides\": ", list(layout.strides.begin(), layout.strides.end()), ", \"offset\": ", layout.offset,
                ", \"dtype\": ", static_cast<int>(layout.dtype), ", \"format\": ", static_cast<int>(layout.format),
                ", \"storage_shape\": ", list(layout.storage.begin(), layout.storage.end()),
                ", \"address\": ", reinterpret_cast<uintptr_t>(address), "}");
}

const char* boolean(bool value) {
    return value ? "true" : "false";
}

}  // namespace

void trace_call(const Call& call) {
    last.any = true;
    last.call = call;
    for (int argument = 0; argument < kArguments; ++argument) {
        last.addresses[argument] = call.tensors[argument] ? call.tensors[argument]->address.load() : nullptr;
        last.call.tensors[argument].reset();  // keeps no descriptor alive
    }
}

const char* last_call() {
    if (!last.any) return nullptr;
    std::string words = text("{\"soc\": \"", last.call.soc->name, "\", \"arguments\": {");
    for (int argument = 0; argument < kArguments; ++argument) {
        words += text(argument == 0 ? "" : ", ", "\"", argument_name(static_cast<Argument>(argument)), "\": ",
                      last.call.handles[argument] == nullptr
                          ? "null"
                          : describe(last.call.layouts[argument], last.addresses[argument]));
    }
    const Attributes& attributes = last.call.attributes;
    const auto& tuning = last.call.tuning_config;
    words += text(
        "}, \"dtype\": ", attributes.dtype, ", \"sharedInputWeight\": ", number(attributes.shared_input_weight),
        ", \"sharedInputOffset\": ", attributes.shared_input_offset,
        ", \"transposeX1\": ", boolean(attributes.transpose_x1),
        ", \"transposeX2\": ", boolean(attributes.transpose_x2), ", \"groupListType\": ", attributes.group_list_type,
        ", \"tuningConfig\": ", tuning ? list(tuning->data(), tuning->data() + tuning->size()) : "null",
        ", \"deterministic\": ", boolean(last.call.deterministic), "}");
    last.words = std::move(words);
    return last.words.c_str();
}

void count_phase1(bool cache_hit) {
    calls.fetch_add(1, std::memory_order_relaxed);
    if (cache_hit) hits.fetch_add(1, std::memory_order_relaxed);
}

uint64_t phase1_calls() {
    return calls.load();
}

uint64_t cache_hits() {
    return hits.load();
}

void reset_phase1_counts() {
    calls = 0;
    hits = 0;
}

}  // namespace gmmfr
