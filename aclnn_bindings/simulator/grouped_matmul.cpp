#include "grouped_matmul.hpp"

#include <algorithm>
#include <cstring>

#include "thread_pool.hpp"

namespace gmmfr {
namespace {

constexpr int64_t kMostSegmentRows = 256;
constexpr int64_t kPassFloats = int64_t{1} << 26;

// Scratch of one worker thread, kept between calls.
struct Scratch {
    alignas(64) uint8_t codes[kPanelDepth * kPanelColumns];
    alignas(64) uint8_t packed[kPanelDepth * kPanelColumns];
    alignas(64) float scales[kPanelDepth / kScaleSpan * kPanelColumns];
    alignas(64) float panel[kPanelDepth * kPanelColumns];
    alignas(64) float sums[kMostSegmentRows * kPanelColumns];
};

Scratch& thread_scratch() {
    thread_local const auto scratch = std::make_unique<Scratch>();
    return *scratch;
}

struct Block {
    int64_t k0, n0;
    int depth, columns;
};

// What the chosen kernels and the scale format fix once.
struct Tables {
    const Kernels& isa = kernels();
    int position[kPanelColumns];
    float scale[256];

    Tables() {
        for (int column = 0; column < kPanelColumns; ++column) position[column] = isa.position(column);
        for (int code = 0; code < 256; ++code) scale[code] = e8m0_to_float(static_cast<uint8_t>(code));
    }
};

const Tables& tables() {
    static const Tables made;
    return made;
}

uint8_t code_at(const Weights& weights, int64_t element) {
    if (weights.bits == 8) return static_cast<uint8_t>(weights.base[element]);
    const auto both = static_cast<uint8_t>(weights.base[element >> 1]);
    return (element & 1) != 0 ? both >> 4 : both & 0x0F;
}

void gather_codes(const Weights& weights, int64_t first, const Block& block, uint8_t* codes) {
    for (int k = 0; k < block.depth; ++k) {
        for (int n = 0; n < block.columns; ++n) {
            codes[k * kPanelColumns + n] = code_at(weights, first + k * weights.k_stride + n * weights.n_stride);
        }
    }
}

// Weight rows along n, one byte each: readable in place unless the block is narrow.
const uint8_t* codes_along_n(const Weights& weights, int64_t first, const Block& block, Scratch& scratch,
                             ptrdiff_t* stride) {
    const auto* source = reinterpret_cast<const uint8_t*>(weights.base);
    if (weights.bits == 8) {
        if (block.columns == kPanelColumns) {
            *stride = weights.k_stride;
            return source + first;
        }
        for (int k = 0; k < block.depth; ++k) {
            std::memcpy(scratch.codes + k * kPanelColumns, source + first + k * weights.k_stride,
                        static_cast<size_t>(block.columns));
        }
        return scratch.codes;
    }
    if (block.columns == kPanelColumns) {
        kernels().unpack_rows(source + first / 2, weights.k_stride / 2, block.depth, kPanelColumns / 2, scratch.codes);
    } else {
        for (int k = 0; k < block.depth; ++k) {
            kernels().unpack_rows(source + (first + k * weights.k_stride) / 2, 0, 1, block.columns / 2,
                                  scratch.codes + k * kPanelColumns);
        }
    }
    return scratch.codes;
}

// Weight rows along k: transposed byte-wise, then split into nibbles where two share a byte.
const uint8_t* codes_along_k(const Weights& weights, int64_t first, const Block& block, Scratch& scratch) {
    const auto* source = reinterpret_cast<const uint8_t*>(weights.base);
    const int per_byte = 8 / weights.bits;
    const int bytes = block.depth / per_byte;
    const ptrdiff_t stride = weights.n_stride / per_byte;
    uint8_t* target = per_byte == 1 ? scratch.codes : scratch.packed;
    if (block.columns == kPanelColumns) {
        kernels().transpose(source + first / per_byte, stride, bytes, target);
    } else {
        for (int n = 0; n < block.columns; ++n) {
            const uint8_t* from = source + first / per_byte + n * stride;
            for (int k = 0; k < bytes; ++k) target[k * kPanelColumns + n] = from[k];
        }
    }
    if (per_byte == 1) return scratch.codes;
    for (int k = 0; k < bytes; ++k) {
        const uint8_t* from = scratch.packed + k * kPanelColumns;
        uint8_t* even = scratch.codes + 2 * k * kPanelColumns;
        for (int n = 0; n < kPanelColumns; ++n) {
            even[n] = from[n] & 0x0F;
            even[kPanelColumns + n] = from[n] >> 4;
        }
    }
    return scratch.codes;
}

const uint8_t* fetch_codes(const Weights& weights, int64_t expert, const Block& block, Scratch& scratch,
                           ptrdiff_t* stride) {
    const int64_t first = expert * weights.expert_stride + block.k0 * weights.k_stride + block.n0 * weights.n_stride;
    const int per_byte = 8 / weights.bits;
    const auto whole = [&](int64_t other_stride) {
        return (weights.expert_stride % per_byte == 0) && (other_stride % per_byte == 0);
    };
    *stride = kPanelColumns;
    if (weights.n_stride == 1 && whole(weights.k_stride) && block.columns % per_byte == 0) {
        return codes_along_n(weights, first, block, scratch, stride);
    }
    if (weights.k_stride == 1 && whole(weights.n_stride) && block.depth % per_byte == 0) {
        return codes_along_k(weights, first, block, scratch);
    }
    gather_codes(weights, first, block, scratch.codes);
    return scratch.codes;
}

// Only scales of real elements are read: a padding slot never is. Columns past the end get 0.
void fetch_scales(const WeightScales& scales, int64_t expert, const Block& block, float* target) {
    const Tables& table = tables();
    for (int span = 0; span * kScaleSpan < block.depth; ++span) {
        const int64_t index = block.k0 / kScaleSpan + span;
        const std::byte* from = scales.base + expert * scales.expert_stride + index / 2 * scales.block_stride +
                                index % 2 * scales.half_stride + block.n0 * scales.n_stride;
        float* row = target + span * kPanelColumns;
        if (block.columns < kPanelColumns) std::fill(row, row + kPanelColumns, 0.0F);
        for (int n = 0; n < block.columns; ++n, from += scales.n_stride) {
            row[table.position[n]] = table.scale[static_cast<uint8_t>(*from)];
        }
    }
}

void multiply_panel(const Segment& segment, const float* left, int64_t k, const Block& block,
                    const std::vector<int>& heights, Scratch& scratch) {
    const Kernels& isa = tables().isa;
    for (int column = 0; column < kPanelColumns; column += isa.strip_columns) {
        const float* right = scratch.panel + static_cast<ptrdiff_t>(column) * block.depth;
        int64_t row = 0;
        for (const int height : heights) {
            isa.multiply(height, block.depth, left + (segment.first_row + row) * k + block.k0 * height, right,
                         scratch.sums + row * kPanelColumns + column, kPanelColumns);
            row += height;
        }
    }
}

void multiply_columns(const Segment& segment, const float* left, const Weights& weights, const WeightScales& scales,
                      const float* start, int64_t n0, float* result) {
    Scratch& scratch = thread_scratch();
    const Tables& table = tables();
    const Kernels& isa = table.isa;
    const int columns = static_cast<int>(std::min<int64_t>(kPanelColumns, weights.n - n0));
    float* sums = scratch.sums;
    std::fill(sums, sums + segment.rows * kPanelColumns, 0.0F);
    if (start != nullptr) {
        for (int n = 0; n < columns; ++n) sums[table.position[n]] = start[segment.expert * weights.n + n0 + n];
        for (int64_t row = 1; row < segment.rows; ++row)
            std::copy(sums, sums + kPanelColumns, sums + row * kPanelColumns);
    }
    const std::vector<int> heights = strip_heights(segment.rows, isa.strip_rows);
    for (int64_t k0 = 0; k0 < weights.k; k0 += kPanelDepth) {
        const Block block{k0, n0, static_cast<int>(std::min<int64_t>(kPanelDepth, weights.k - k0)), columns};
        ptrdiff_t stride = 0;
        const uint8_t* codes = fetch_codes(weights, segment.expert, block, scratch, &stride);
        const bool scaled = scales.base != nullptr;
        if (scaled) fetch_scales(scales, segment.expert, block, scratch.scales);
        isa.decode(weights.format, codes, stride, block.depth, scaled ? scratch.scales : nullptr, scratch.panel);
        multiply_panel(segment, left, weights.k, block, heights, scratch);
    }
    for (int64_t row = 0; row < segment.rows; ++row) {
        const float* from = sums + row * kPanelColumns;
        float* to = result + (segment.first_row + row) * weights.n + n0;
        for (int n = 0; n < columns; ++n) to[n] = from[table.position[n]];
    }
}

}  // namespace

float e8m0_to_float(uint8_t code) {
    uint32_t bits = uint32_t{code} << 23;
    if (code == 0) bits = 0x00400000;    // 2^-127, a subnormal
    if (code == 255) bits = 0x7FC00000;  // NaN
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

std::vector<int> strip_heights(int64_t rows, int most) {
    const int64_t strips = (rows + most - 1) / most;
    std::vector<int> heights;
    for (int64_t strip = 0; strip < strips; ++strip) {
        heights.push_back(static_cast<int>((rows * (strip + 1)) / strips - (rows * strip) / strips));
    }
    return heights;
}

std::vector<Pass> plan_passes(const std::vector<int64_t>& first_row, int64_t floats_per_row) {
    // even, so that rows which belong together in pairs stay together
    const int64_t budget = std::max<int64_t>(2, kPassFloats / std::max<int64_t>(1, floats_per_row) / 2 * 2);
    std::vector<Pass> passes;
    for (size_t g = 0; g + 1 < first_row.size(); ++g) {
        for (int64_t row = first_row[g]; row < first_row[g + 1];) {
            if (passes.empty() || passes.back().rows >= budget) passes.push_back({row, 0, {}});
            Pass& pass = passes.back();
            const int64_t rows = std::min({first_row[g + 1] - row, kMostSegmentRows, budget - pass.rows});
            pass.segments.push_back({static_cast<int64_t>(g), pass.rows, rows});
            pass.rows += rows;
            row += rows;
        }
    }
    return passes;
}

std::vector<Strip> strips_of(const Pass& pass) {
    std::vector<Strip> strips;
    for (const Segment& segment : pass.segments) {
        int64_t row = segment.first_row;
        for (const int height : strip_heights(segment.rows, kernels().strip_rows)) {
            strips.push_back({row, height});
            row += height;
        }
    }
    return strips;
}

void multiply_segments(const std::vector<Segment>& segments, const float* left, const Weights& weights,
                       const WeightScales& scales, const float* start, float* result) {
    const int64_t blocks = (weights.n + kPanelColumns - 1) / kPanelColumns;
    const int64_t decoded = static_cast<int64_t>(segments.size()) * weights.k * weights.n;  // about two in a nanosecond
    ThreadPool::shared().run(static_cast<int64_t>(segments.size()) * blocks, decoded / 2, [&](int64_t at) {
        const Segment& segment = segments[static_cast<size_t>(at / blocks)];
        multiply_columns(segment, left, weights, scales, start, at % blocks * kPanelColumns, result);
    });
}

}  // namespace gmmfr
