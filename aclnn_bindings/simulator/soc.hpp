// The SoCs that the simulator can be.
#pragma once

#include <cstdint>
#include <string>

namespace gmmfr {

enum class Family { atlas_a2, atlas_a3, ascend950 };

struct Soc {
    std::string name;
    Family family;
    uint64_t cube_cores;
    uint64_t l2_bytes;

    bool is_950() const { return family == Family::ascend950; }
};

// NULL for a name that no family has.
const Soc* find_soc(const std::string& name);

// The SoC of the calling thread: its own choice, else the process default.
const Soc& current_soc();

// NULL: back to the process default.
void choose_soc(const Soc* soc);

}  // namespace gmmfr
