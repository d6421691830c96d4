#include "soc.hpp"

#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>

namespace gmmfr {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr const char* kDefaultName = "Ascend950PR_9579";

// Core counts and L2 sizes only enter the workspace figure.
constexpr uint64_t kCubeCores = 24;
constexpr uint64_t kL2Bytes = 192 * kMiB;

constexpr const char* kA2Names[] = {"Ascend910B1", "Ascend910B2", "Ascend910B2C",
                                    "Ascend910B3", "Ascend910B4", "Ascend910B4-1"};
constexpr const char* kA3Names[] = {"Ascend910_9391", "Ascend910_9392", "Ascend910_9381", "Ascend910_9382",
                                    "Ascend910_9372", "Ascend910_9362", "Ascend910_9363"};
constexpr const char* k950Prefix = "Ascend950";

bool family_of(const std::string& name, Family* family) {
    for (const char* known : kA2Names) {
        if (name == known) return *family = Family::atlas_a2, true;
    }
    for (const char* known : kA3Names) {
        if (name == known) return *family = Family::atlas_a3, true;
    }
    *family = Family::ascend950;
    return name.rfind(k950Prefix, 0) == 0;
}

const Soc& process_soc() {
    static const Soc* soc = [] {
        const char* name = std::getenv("GMMFR_SIM_SOC");
        const Soc* found = find_soc(name == nullptr || *name == '\0' ? kDefaultName : name);
        if (found == nullptr) {
            std::fprintf(stderr, "GMMFR_SIM_SOC: \"%s\" is no SoC name; expected for example %s, %s or %s\n", name,
                         kA2Names[1], kA3Names[0], kDefaultName);
            std::abort();
        }
        return found;
    }();
    return *soc;
}

thread_local const Soc* chosen = nullptr;

}  // namespace

const Soc* find_soc(const std::string& name) {
    static std::mutex mutex;
    static auto* known = new std::map<std::string, Soc>;
    Family family;
    if (!family_of(name, &family)) return nullptr;
    std::lock_guard<std::mutex> lock(mutex);
    return &known->try_emplace(name, Soc{name, family, kCubeCores, kL2Bytes}).first->second;
}

const Soc& current_soc() {
    return chosen != nullptr ? *chosen : process_soc();
}

void choose_soc(const Soc* soc) {
    chosen = soc;
}

}  // namespace gmmfr
