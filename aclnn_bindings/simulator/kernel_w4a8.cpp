// Atlas A2/A3, W4A8: x split into two signed halves, two products rounded to fp16, bias as compensation.
#include <algorithm>
#include <cmath>
#include <limits>

#include "combine.hpp"
#include "grouped_matmul.hpp"
#include "kernels.hpp"
#include "thread_pool.hpp"

// Every product and every sum is rounded on its own, as the device does: no fused multiply-add.
#if defined(__clang__)
#pragma clang fp contract(off)
#else
#pragma GCC optimize("fp-contract=off")
#endif

namespace gmmfr {
namespace {

constexpr float kHalfLargest = 65504.0F;
constexpr float kHalfOverflow = 65520.0F;  // rounds to the first number that half precision does not have
constexpr float kHalfSmallestNormal = 6.103515625e-05F;
constexpr int64_t kColumnBlock = 512;
constexpr uint64_t kScaleBits = 0xFFFFE000;  // the quant vector keeps the top 19 bits of a float

float as_float(uint32_t bits) {
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

// The nearest half-precision number, ties to even, as a float. Every case is computed and one chosen, which
// compilers turn into vector code.
inline float round_to_half(float value, bool saturate) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    const uint32_t sign = bits & 0x80000000, wide = bits & 0x7FFFFFFF;
    const float magnitude = as_float(wide);
    const float normal = as_float((wide + 0xFFF + ((wide >> 13) & 1)) & 0xFFFFE000);
    const float tiny = (magnitude + 0.5F) - 0.5F;  // floats at 0.5 are 2^-24 apart, as half subnormals are
    const float largest = saturate ? kHalfLargest : std::numeric_limits<float>::infinity();
    float rounded = magnitude < kHalfSmallestNormal ? tiny : normal;
    rounded = magnitude >= kHalfOverflow ? largest : rounded;
    uint32_t result;
    std::memcpy(&result, &rounded, sizeof result);
    result |= sign;
    const uint32_t not_a_number = saturate ? 0 : bits;
    return as_float(wide > 0x7F800000 ? not_a_number : result);
}

struct Inputs {
    Operand x1, x2, scale, bias, offset, pertoken_scale, shared;
};

Failure open_inputs(const Launch& launch, Inputs* inputs) {
    const std::pair<Argument, Operand*> all[] = {{kX1, &inputs->x1},
                                                 {kX2, &inputs->x2},
                                                 {kScale, &inputs->scale},
                                                 {kBias, &inputs->bias},
                                                 {kOffset, &inputs->offset},
                                                 {kPertokenScale, &inputs->pertoken_scale},
                                                 {kSharedInput, &inputs->shared}};
    for (const auto& [argument, operand] : all) {
        if (!launch.plan->present[argument]) continue;
        if (Failure failed = operand->open(launch, argument)) return failed;
    }
    return {};
}

// x = 16 * high + low + 8, both in -8..7.
int high_half(int8_t x) {
    return x >> 4;
}
int low_half(int8_t x) {
    return (x & 15) - 8;
}

// Row 2i of the product's left side holds the high halves of row i, row 2i + 1 the low ones.
void split_row(const Plan& plan, const Operand& x1, int64_t row, bool high, int step, float* target) {
    const int64_t first = row * x1.stride(0), along_k = x1.stride(1);
    for (int64_t k = 0; k < plan.k; ++k) {
        const auto x = static_cast<int8_t>(x1.base()[first + k * along_k]);
        target[k * step] = static_cast<float>(high ? high_half(x) : low_half(x));
    }
}

void pack_rows(const Plan& plan, const Operand& x1, const Pass& pass, float* left) {
    const std::vector<Strip> strips = strips_of(pass);
    ThreadPool::shared().run(static_cast<int64_t>(strips.size()), pass.rows * plan.k, [&](int64_t at) {
        const Strip& strip = strips[static_cast<size_t>(at)];
        for (int i = 0; i < strip.height; ++i) {
            const int64_t half_row = pass.first_row + strip.first_row + i;
            split_row(plan, x1, half_row / 2, half_row % 2 == 0, strip.height, left + strip.first_row * plan.k + i);
        }
    });
}

// What some columns of one expert need beside the products.
struct Columns {
    int64_t count;
    std::vector<float> scale, bias, offset;

    Columns(const Inputs& inputs, int64_t expert, int64_t begin, int64_t end) : count(end - begin) {
        for (int64_t n = begin; n < end; ++n) {
            const auto word = inputs.scale.load<uint64_t>(expert * inputs.scale.stride(0) + n * inputs.scale.stride(2));
            scale.push_back(as_float(static_cast<uint32_t>(word & kScaleBits)));
            bias.push_back(inputs.bias.load<float>(expert * inputs.bias.stride(0) + n * inputs.bias.stride(1)));
            if (!inputs.offset.opened()) continue;
            offset.push_back(inputs.offset.load<float>(expert * inputs.offset.stride(0) + n * inputs.offset.stride(2)));
        }
    }
};

// Sums of the original rows of a pass; none when there is no offset to multiply them with.
std::vector<float> row_sums(const Plan& plan, const Inputs& inputs, const Pass& pass) {
    if (!inputs.offset.opened()) return {};
    std::vector<float> sums(static_cast<size_t>(pass.rows / 2));
    const Operand& x1 = inputs.x1;
    ThreadPool::shared().run(pass.rows / 2, pass.rows / 2 * plan.k, [&](int64_t i) {
        const std::byte* row = x1.base() + (pass.first_row / 2 + i) * x1.stride(0);
        int64_t sum = 0;
        for (int64_t k = 0; k < plan.k; ++k) sum += static_cast<int8_t>(row[k * x1.stride(1)]);
        sums[static_cast<size_t>(i)] = static_cast<float>(sum);
    });
    return sums;
}

// v = 16 * fp16(A * s) + fp16(B * s) + bias [+ rowsum * offset]
void dequantize_row(const Columns& columns, bool saturate, const float* sum, const float* high, const float* low,
                    float* values) {
    for (int64_t n = 0; n < columns.count; ++n) {
        const float scale = columns.scale[static_cast<size_t>(n)];
        float value = 16.0F * round_to_half(high[n] * scale, saturate);
        value += round_to_half(low[n] * scale, saturate);
        values[n] = value + columns.bias[static_cast<size_t>(n)];
    }
    if (sum == nullptr) return;
    for (int64_t n = 0; n < columns.count; ++n) values[n] += *sum * columns.offset[static_cast<size_t>(n)];
}

void dequantize(const Launch& launch, const Inputs& inputs, const Pass& pass, const std::vector<float>& products,
                float* values) {
    const int64_t n = launch.plan->n, blocks = (n + kColumnBlock - 1) / kColumnBlock;
    const std::vector<float> sums = row_sums(*launch.plan, inputs, pass);
    ThreadPool::shared().run(static_cast<int64_t>(pass.segments.size()) * blocks, pass.rows * n, [&](int64_t at) {
        const Segment& segment = pass.segments[static_cast<size_t>(at / blocks)];
        const int64_t begin = at % blocks * kColumnBlock;
        const Columns columns(inputs, segment.expert, begin, std::min(n, begin + kColumnBlock));
        for (int64_t i = segment.first_row / 2; i < (segment.first_row + segment.rows) / 2; ++i) {
            const float* high = products.data() + 2 * i * n + begin;
            const float* sum = sums.empty() ? nullptr : &sums[static_cast<size_t>(i)];
            dequantize_row(columns, launch.saturate, sum, high, high + n, values + i * n + begin);
        }
    });
}

// The device leaves the packed halves where the row was: high halves in the first k/2 bytes, low halves after.
void overwrite_x1(const Plan& plan, const Operand& x1, int64_t rows) {
    if (!x1.layout().contiguous()) return;  // then it is the copy in workspace that is lost
    std::vector<uint8_t> packed(static_cast<size_t>(plan.k));
    for (int64_t row = 0; row < rows; ++row) {
        std::byte* at = x1.base() + row * plan.k;
        for (int64_t k = 0; k < plan.k; k += 2) {
            const auto even = static_cast<int8_t>(at[k]), odd = static_cast<int8_t>(at[k + 1]);
            packed[static_cast<size_t>(k / 2)] =
                static_cast<uint8_t>((high_half(even) & 15) | ((high_half(odd) & 15) << 4));
            packed[static_cast<size_t>(plan.k / 2 + k / 2)] =
                static_cast<uint8_t>((low_half(even) & 15) | ((low_half(odd) & 15) << 4));
        }
        std::memcpy(at, packed.data(), packed.size());
    }
}

std::vector<float> row_factors(const Routing& routing, const Operand& pertoken_scale) {
    std::vector<float> factors;
    for (int64_t i = 0; i < routing.rows(); ++i) {
        factors.push_back(pertoken_scale.load<float>(i * pertoken_scale.stride(0)) *
                          routing.logit[static_cast<size_t>(i)]);
    }
    return factors;
}

}  // namespace

Failure run_w4a8(const Launch& launch, const Routing& routing) {
    const Plan& plan = *launch.plan;
    Inputs inputs;
    if (Failure failed = open_inputs(launch, &inputs)) return failed;
    Result result;
    if (Failure failed = result.open(launch)) return failed;
    const Weights weights{
        CodeFormat::int4,   4, inputs.x2.base(), plan.k, plan.n, inputs.x2.stride(0), inputs.x2.stride(1),
        inputs.x2.stride(2)};
    const std::vector<float> factors = row_factors(routing, inputs.pertoken_scale);
    std::vector<int64_t> half_rows;
    for (const int64_t row : routing.first_row) half_rows.push_back(2 * row);
    result.initialize(plan, inputs.shared.opened() ? &inputs.shared : nullptr);
    for (const Pass& pass : plan_passes(half_rows, plan.k + 2 * plan.n)) {
        std::vector<float> left(static_cast<size_t>(pass.rows * plan.k));
        std::vector<float> products(static_cast<size_t>(pass.rows * plan.n));
        std::vector<float> values(static_cast<size_t>(pass.rows / 2 * plan.n));
        pack_rows(plan, inputs.x1, pass, left.data());
        multiply_segments(pass.segments, left.data(), weights, {}, nullptr, products.data());
        dequantize(launch, inputs, pass, products, values.data());
        result.add_rows(routing, pass.first_row / 2, pass.rows / 2, values.data(), factors.data());
    }
    overwrite_x1(plan, inputs.x1, routing.rows());
    result.store();
    return {};
}

}  // namespace gmmfr
