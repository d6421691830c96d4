// Ascend 950, MXFP8 and MXFP4: sum over k of (x * its scale) * (w * its scale), bias first, then the logit.
#include <algorithm>
#include <cmath>
#include <limits>

#include "combine.hpp"
#include "grouped_matmul.hpp"
#include "kernels.hpp"
#include "thread_pool.hpp"

namespace gmmfr {
namespace {

CodeFormat code_format(aclDataType dtype) {
    if (dtype == ACL_FLOAT8_E4M3FN) return CodeFormat::e4m3;
    return dtype == ACL_FLOAT8_E5M2 ? CodeFormat::e5m2 : CodeFormat::e2m1;
}

// Value of a code of x from the format's definition.
float decode_code(CodeFormat format, int code) {
    const int mantissa_bits = format == CodeFormat::e4m3 ? 3 : format == CodeFormat::e5m2 ? 2 : 1;
    const int bias = format == CodeFormat::e4m3 ? 7 : format == CodeFormat::e5m2 ? 15 : 1;
    const int sign_bit = format == CodeFormat::e2m1 ? 3 : 7;
    const int magnitude = code & ((1 << sign_bit) - 1);
    const int exponent = magnitude >> mantissa_bits;
    const int mantissa = magnitude & ((1 << mantissa_bits) - 1);
    float value = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), 1 - bias - mantissa_bits)
                                : std::ldexp(static_cast<float>(mantissa + (1 << mantissa_bits)),
                                             exponent - bias - mantissa_bits);
    if (format == CodeFormat::e4m3 && magnitude == 0x7F) value = std::numeric_limits<float>::quiet_NaN();
    if (format == CodeFormat::e5m2 && exponent == 31) {
        value = mantissa == 0 ? std::numeric_limits<float>::infinity() : std::numeric_limits<float>::quiet_NaN();
    }
    return ((code >> sign_bit) & 1) != 0 ? -value : value;
}

struct Inputs {
    Operand x1, x2, scale, pertoken_scale, bias, shared;
};

Failure open_inputs(const Launch& launch, Inputs* inputs) {
    const std::pair<Argument, Operand*> all[] = {{kX1, &inputs->x1},       {kX2, &inputs->x2},
                                                 {kScale, &inputs->scale}, {kPertokenScale, &inputs->pertoken_scale},
                                                 {kBias, &inputs->bias},   {kSharedInput, &inputs->shared}};
    for (const auto& [argument, operand] : all) {
        if (!launch.plan->present[argument]) continue;
        if (Failure failed = operand->open(launch, argument)) return failed;
    }
    return {};
}

// Decodes one row of x into place: element k goes to target[k * step].
void decode_row(const Plan& plan, const Inputs& inputs, const float* table, int64_t row, int step, float* target) {
    const Operand& x = inputs.x1;
    const Operand& scale = inputs.pertoken_scale;
    const bool fp4 = bits_of(x.layout().dtype) == 4;
    const int64_t first = row * x.stride(0), along_k = x.stride(1);
    for (int64_t k0 = 0; k0 < plan.k; k0 += kScaleSpan) {
        const int64_t block = k0 / kScaleSpan;
        const float factor = e8m0_to_float(
            scale.load<uint8_t>(row * scale.stride(0) + block / 2 * scale.stride(1) + block % 2 * scale.stride(2)));
        const int64_t end = std::min<int64_t>(plan.k, k0 + kScaleSpan);
        for (int64_t k = k0; k < end; ++k) {
            const int64_t element = first + k * along_k;
            uint8_t code = static_cast<uint8_t>(x.base()[fp4 ? element >> 1 : element]);
            if (fp4) code = (element & 1) != 0 ? code >> 4 : code & 0x0F;
            target[k * step] = table[code] * factor;
        }
    }
}

// Packs the rows of a pass as multiply_segments wants them.
void pack_rows(const Plan& plan, const Inputs& inputs, const float* table, const Pass& pass, float* left) {
    const std::vector<Strip> strips = strips_of(pass);
    ThreadPool::shared().run(static_cast<int64_t>(strips.size()), pass.rows * plan.k, [&](int64_t at) {
        const Strip& strip = strips[static_cast<size_t>(at)];
        for (int i = 0; i < strip.height; ++i) {
            decode_row(plan, inputs, table, pass.first_row + strip.first_row + i, strip.height,
                       left + strip.first_row * plan.k + i);
        }
    });
}

std::vector<float> read_bias(const Plan& plan, const Operand& bias) {
    std::vector<float> values;
    if (!bias.opened()) return values;
    values.resize(static_cast<size_t>(plan.e * plan.n));
    for (int64_t g = 0; g < plan.e; ++g) {
        for (int64_t n = 0; n < plan.n; ++n) {
            values[static_cast<size_t>(g * plan.n + n)] =
                bf16_to_float(bias.load<uint16_t>(g * bias.stride(0) + n * bias.stride(1)));
        }
    }
    return values;
}

Weights weights_of(const Plan& plan, const Operand& x2) {
    const int n_axis = plan.x2_transposed ? 1 : 2;
    return {code_format(x2.layout().dtype), bits_of(x2.layout().dtype), x2.base(), plan.k, plan.n, x2.stride(0),
            x2.stride(3 - n_axis),          x2.stride(n_axis)};
}

WeightScales scales_of(const Plan& plan, const Operand& scale) {
    const int n_axis = plan.x2_transposed ? 1 : 2;
    return {scale.base(), scale.stride(0), scale.stride(3 - n_axis), scale.stride(n_axis), scale.stride(3)};
}

}  // namespace

Failure run_mx(const Launch& launch, const Routing& routing) {
    const Plan& plan = *launch.plan;
    Inputs inputs;
    if (Failure failed = open_inputs(launch, &inputs)) return failed;
    Result result;
    if (Failure failed = result.open(launch)) return failed;
    float table[256];
    for (int code = 0; code < 256; ++code) table[code] = decode_code(code_format(inputs.x1.layout().dtype), code);
    const Weights weights = weights_of(plan, inputs.x2);
    const WeightScales scales = scales_of(plan, inputs.scale);
    const std::vector<float> bias = read_bias(plan, inputs.bias);
    result.initialize(plan, inputs.shared.opened() ? &inputs.shared : nullptr);
    for (const Pass& pass : plan_passes(routing.first_row, plan.k + plan.n)) {
        std::vector<float> left(static_cast<size_t>(pass.rows * plan.k));
        std::vector<float> values(static_cast<size_t>(pass.rows * plan.n));
        pack_rows(plan, inputs, table, pass, left.data());
        multiply_segments(pass.segments, left.data(), weights, scales, bias.empty() ? nullptr : bias.data(),
                          values.data());
        result.add_rows(routing, pass.first_row, pass.rows, values.data(), routing.logit.data());
    }
    result.store();
    return {};
}

}  // namespace gmmfr
