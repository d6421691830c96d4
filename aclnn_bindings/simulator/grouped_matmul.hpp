// Rows of each expert times the expert's weights, in float32, the weights decoded on the way.
#pragma once

#include <vector>

#include "isa.hpp"
#include "routing.hpp"

namespace gmmfr {

// The weights of all experts. Strides count elements; ones along k or n is the fast case.
struct Weights {
    CodeFormat format;
    int bits;  // 8 or 4
    const std::byte* base;
    int64_t k, n;
    int64_t expert_stride, k_stride, n_stride;
};

// MX scales of the weights; base NULL for none.
struct WeightScales {
    const std::byte* base = nullptr;
    int64_t expert_stride = 0, block_stride = 0, n_stride = 0, half_stride = 0;
};

// Consecutive rows of one expert, packed for the kernels: strips of rows, each [k][strip height].
struct Segment {
    int64_t expert;
    int64_t first_row;  // among the rows of the pass
    int64_t rows;
};

std::vector<int> strip_heights(int64_t rows, int most);

// result[row][n] (dense) for the rows of all segments; start[expert * n + column], when given, is the
// accumulator's first value. left holds rows * k floats, segment by segment.
void multiply_segments(const std::vector<Segment>& segments, const float* left, const Weights& weights,
                       const WeightScales& scales, const float* start, float* result);

// Cuts rows_of_expert (e + 1 running totals) into segments of at most most_rows and into passes whose floats
// stay below a budget. Each pass: segments with first_row counted from the pass's own first row.
struct Pass {
    int64_t first_row;
    int64_t rows;
    std::vector<Segment> segments;
};
std::vector<Pass> plan_passes(const std::vector<int64_t>& first_row, int64_t floats_per_row);

// One strip of a pass: rows first_row .. first_row + height - 1 of the pass, packed side by side.
struct Strip {
    int64_t first_row;
    int height;
};
std::vector<Strip> strips_of(const Pass& pass);

float e8m0_to_float(uint8_t code);

}  // namespace gmmfr
