// The end of both paths: first values of out, then every row added to its token's row, in row order.
#pragma once

#include <vector>

#include "routing.hpp"

namespace gmmfr {

// out as a dense float matrix: the tensor itself where it is contiguous, else a copy that store() writes back.
class Result {
public:
    Failure open(const Launch& launch);
    // Zero, or shared input times its weight in the rows from the offset on.
    void initialize(const Plan& plan, const Operand* shared);
    // Row first_row + i of the call, times its factor, is added to out's row; values is rows * n.
    void add_rows(const Routing& routing, int64_t first_row, int64_t rows, const float* values, const float* factors);
    void store();

private:
    Operand out_;
    std::vector<float> copy_;
    float* values_ = nullptr;
    int64_t rows_ = 0, n_ = 0;
    uint64_t shuffle_seed_ = 0;
};

}  // namespace gmmfr
