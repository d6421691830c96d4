#include "routing.hpp"

namespace gmmfr {
namespace {

Failure read_counts(const Plan& plan, const Operand& group_list, std::vector<int64_t>* first_row) {
    const bool totals = plan.attributes.group_list_type == 0;
    first_row->assign(1, 0);
    for (int64_t g = 0; g < plan.e; ++g) {
        const int64_t before = first_row->back();
        const auto value = group_list.load<int64_t>(g * group_list.stride(0));
        if (!totals && value < 0) {
            return failure(kValueError, "groupList[", g, "] = ", value, ": expected a count of 0 or more");
        }
        if (totals && value < before) {
            return failure(kValueError, "groupList[", g, "] = ", value, ": expected running totals, the one before is ",
                           before);
        }
        int64_t end = value;
        if (!totals && __builtin_add_overflow(before, value, &end)) end = INT64_MAX;
        if (end > plan.m) {
            return failure(kValueError, "groupList[", g, "] = ", value, ": expected at most m = ", plan.m,
                           " rows in all, got ", end);
        }
        first_row->push_back(end);
    }
    return {};
}

}  // namespace

Failure read_routing(const Plan& plan, const Operand& group_list, const Operand& row_index, const Operand& logit,
                     Routing* routing) {
    if (Failure failed = read_counts(plan, group_list, &routing->first_row)) return failed;
    const int64_t rows = routing->rows();
    routing->row_index.resize(static_cast<size_t>(rows));
    routing->logit.resize(static_cast<size_t>(rows));
    for (int64_t i = 0; i < rows; ++i) {
        const auto target = row_index.load<int64_t>(i * row_index.stride(0));
        if (target < 0 || target >= plan.rows) {
            return failure(kValueError, "rowIndex[", i, "] = ", target, ": expected 0 to ", plan.rows - 1, " (out has ",
                           plan.rows, " rows)");
        }
        routing->row_index[static_cast<size_t>(i)] = target;
        routing->logit[static_cast<size_t>(i)] = logit.load<float>(i * logit.stride(0));
    }
    return {};
}

}  // namespace gmmfr
