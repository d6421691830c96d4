#include "faults.hpp"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <vector>

namespace gmmfr {
namespace {

struct Order {
    std::string function;
    uint64_t nth;
    int code;
    uint64_t calls;
};

struct Orders {
    std::mutex mutex;
    std::vector<Order> list;
    std::atomic<bool> any{false};
};

bool parse_number(const std::string& word, long long lowest, long long* value) {
    char* end = nullptr;
    *value = std::strtoll(word.c_str(), &end, 10);
    return !word.empty() && *end == '\0' && *value >= lowest;
}

bool parse_orders(const std::string& words, std::vector<Order>* list) {
    std::istringstream stream(words);
    std::string word;
    while (std::getline(stream, word, ',')) {
        std::istringstream fields(word);
        std::string function, nth, code;
        std::getline(fields, function, ':');
        std::getline(fields, nth, ':');
        std::getline(fields, code);
        long long nth_value = 0, code_value = 0;
        if (function.empty() || !parse_number(nth, 1, &nth_value) || !parse_number(code, 1, &code_value)) {
            return false;
        }
        list->push_back({function, static_cast<uint64_t>(nth_value), static_cast<int>(code_value), 0});
    }
    return true;
}

Orders& orders() {
    static Orders* instance = [] {
        auto* made = new Orders;
        if (const char* words = std::getenv("GMMFR_SIM_FAULT")) {
            if (!parse_orders(words, &made->list)) {
                std::fprintf(stderr, "GMMFR_SIM_FAULT: expected function:n:code[,...], got \"%s\"\n", words);
                std::abort();
            }
            made->any = !made->list.empty();
        }
        return made;
    }();
    return *instance;
}

}  // namespace

int injected_fault(const char* function) {
    Orders& all = orders();
    if (!all.any.load(std::memory_order_relaxed)) return 0;
    std::lock_guard<std::mutex> lock(all.mutex);
    int code = 0;  // every order counts this call; the first that is due decides
    for (Order& order : all.list) {
        if (order.function == function && ++order.calls == order.nth && code == 0) code = order.code;
    }
    return code;
}

bool set_faults(const char* words) {
    std::vector<Order> list;
    if (words != nullptr && !parse_orders(words, &list)) return false;
    Orders& all = orders();
    std::lock_guard<std::mutex> lock(all.mutex);
    all.list = std::move(list);
    all.any = !all.list.empty();
    return true;
}

}  // namespace gmmfr
