// Which rows belong to which expert and where each goes: read from device memory and checked.
#pragma once

#include <vector>

#include "operand.hpp"

namespace gmmfr {

struct Routing {
    std::vector<int64_t> first_row;  // e + 1 entries: rows of expert g are first_row[g] .. first_row[g + 1] - 1
    std::vector<int64_t> row_index;  // one for each processed row
    std::vector<float> logit;

    int64_t rows() const { return first_row.back(); }
};

Failure read_routing(const Plan& plan, const Operand& group_list, const Operand& row_index, const Operand& logit,
                     Routing* routing);

}  // namespace gmmfr
