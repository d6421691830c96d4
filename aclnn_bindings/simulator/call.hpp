// One call of the operator: the arguments as they came, and what phase 1 makes of them.
#pragma once

#include <memory>
#include <vector>

#include "soc.hpp"
#include "tensor.hpp"

namespace gmmfr {

// In the order of the prototype, out last.
enum Argument {
    kX1,
    kX2,
    kScale,
    kBias,
    kOffset,
    kAntiquantScale,
    kAntiquantOffset,
    kPertokenScale,
    kGroupList,
    kSharedInput,
    kLogit,
    kRowIndex,
    kOut,
    kArguments
};

const char* argument_name(Argument argument);

struct Attributes {
    int64_t dtype = 0;
    float shared_input_weight = 1.0F;
    int64_t shared_input_offset = 0;
    bool transpose_x1 = false;
    bool transpose_x2 = false;
    int64_t group_list_type = 0;
};

// As received.
struct Call {
    const Soc* soc = nullptr;
    std::array<std::shared_ptr<Tensor>, kArguments> tensors;
    std::array<const void*, kArguments> handles{};
    std::array<Layout, kArguments> layouts;
    Attributes attributes;
    std::shared_ptr<IntArray> tuning_config;
    bool deterministic = false;

    bool has(Argument argument) const { return tensors[argument] != nullptr; }
    Layout& operator[](Argument argument) { return layouts[argument]; }
    const Layout& operator[](Argument argument) const { return layouts[argument]; }
};

enum class Path { none, w4a8, mx, unsupported };

// What phase 2 runs: layouts after phase 1's rewriting, problem extents, and why it cannot run if it cannot.
struct Plan {
    Path path = Path::none;
    std::string unsupported;
    const Soc* soc = nullptr;
    std::array<bool, kArguments> present{};
    std::array<Layout, kArguments> layouts;
    Attributes attributes;
    bool x2_transposed = false;
    bool deterministic = false;
    int64_t m = 0, n = 0, k = 0, e = 0, rows = 0;
    uint64_t workspace = 0;

    const Layout& operator[](Argument argument) const { return layouts[argument]; }
};

}  // namespace gmmfr
