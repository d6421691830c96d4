#include "combine.hpp"

#include <algorithm>
#include <numeric>
#include <random>

#include "checking.hpp"
#include "thread_pool.hpp"

// Every product and every sum is rounded on its own, as the device does: no fused multiply-add.
#if defined(__clang__)
#pragma clang fp contract(off)
#else
#pragma GCC optimize("fp-contract=off")
#endif

namespace gmmfr {
namespace {

constexpr int64_t kColumns = 512;

void for_column_blocks(int64_t rows, int64_t n, const std::function<void(int64_t, int64_t)>& work) {
    ThreadPool::shared().run((n + kColumns - 1) / kColumns, rows * n / 2,
                             [&](int64_t block) { work(block * kColumns, std::min(n, (block + 1) * kColumns)); });
}

std::vector<int64_t> row_order(int64_t rows, uint64_t seed) {
    std::vector<int64_t> order(static_cast<size_t>(rows));
    std::iota(order.begin(), order.end(), 0);
    if (seed != 0) std::shuffle(order.begin(), order.end(), std::mt19937_64(seed));
    return order;
}

}  // namespace

Failure Result::open(const Launch& launch) {
    if (Failure failed = out_.open(launch, kOut)) return failed;
    rows_ = launch.plan->rows;
    n_ = launch.plan->n;
    const bool in_order = launch.plan->deterministic && !launch.plan->soc->is_950();
    shuffle_seed_ = in_order ? 0 : shuffle_seed();
    if (rows_ == 0 || n_ == 0) return {};
    const bool aligned = reinterpret_cast<uintptr_t>(out_.base()) % alignof(float) == 0;
    if (out_.layout().contiguous() && aligned) {
        values_ = reinterpret_cast<float*>(out_.base());
    } else {
        copy_.resize(static_cast<size_t>(rows_ * n_));
        values_ = copy_.data();
    }
    return {};
}

void Result::initialize(const Plan& plan, const Operand* shared) {
    const int64_t first = plan.attributes.shared_input_offset;
    const int64_t count = shared == nullptr ? 0 : shared->layout().view[0];
    const float weight = plan.attributes.shared_input_weight;
    for_column_blocks(rows_, n_, [&](int64_t begin, int64_t end) {
        for (int64_t row = 0; row < rows_; ++row) {
            float* to = values_ + row * n_;
            if (row < first || row - first >= count) {
                std::fill(to + begin, to + end, 0.0F);
                continue;
            }
            const int64_t source = (row - first) * shared->stride(0);
            for (int64_t n = begin; n < end; ++n) {
                to[n] = bf16_to_float(shared->load<uint16_t>(source + n * shared->stride(1))) * weight;
            }
        }
    });
}

void Result::add_rows(const Routing& routing, int64_t first_row, int64_t rows, const float* values,
                      const float* factors) {
    const std::vector<int64_t> order = row_order(rows, shuffle_seed_);
    for_column_blocks(rows, n_, [&](int64_t begin, int64_t end) {
        for (const int64_t i : order) {
            const float factor = factors[first_row + i];
            float* to = values_ + routing.row_index[static_cast<size_t>(first_row + i)] * n_;
            const float* from = values + i * n_;
            for (int64_t n = begin; n < end; ++n) {
                const float product = from[n] * factor;
                to[n] += product;
            }
        }
    });
}

void Result::store() {
    if (copy_.empty()) return;
    for (int64_t row = 0; row < rows_; ++row) {
        for (int64_t n = 0; n < n_; ++n) {
            const int64_t element = row * out_.stride(0) + n * out_.stride(1);
            std::memcpy(out_.base() + element * static_cast<int64_t>(sizeof(float)),
                        &copy_[static_cast<size_t>(row * n_ + n)], sizeof(float));
        }
    }
}

}  // namespace gmmfr
