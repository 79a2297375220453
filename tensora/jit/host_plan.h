#pragma once

// Internal header: how the CPU runs a program.

#include <array>

#include "tensora/backend/cpu/chain.h"
#include "tensora/jit/tile_program.h"

namespace tensora::jit {

// Note [Stages]
// On the CPU a program is a list of stages, which run one after the other on each tile of the
// space. A stage is a chain (Note [Chains]), or one op's own kernel. Values that one stage makes
// and another reads lie in buffers of a tile's size, which stay in the cache; what a chain keeps to
// itself never leaves the registers or a slot of one strip. Stages are formed by levels: a chain
// holds all steps that need the same stages before them.

/// Where a step of a chain finds an operand, or puts a value.
struct ChainPlace {
  enum class Kind : uint8_t { none, external, slot } kind = Kind::none;
  int index = -1;  // of an external, or of a slot
};

struct ChainPlan {
  struct External {
    int value;
    int result = -1;     // written to this result; -1: to the value's buffer
    bool write = false;  // otherwise it is read
  };
  struct Item {
    cpu::ChainCode code = nullptr;
    int step = -1;  // whose functor it is; -1: none
    std::array<ChainPlace, cpu::kChainOperands> memory = {};
    int store = -1;  // the external that is written
  };
  std::vector<External> externals = {};
  std::vector<Item> items = {};
  int slots = 0;
};

struct Stage {
  bool chained = false;
  Extent extent = Extent::element;
  std::vector<int> values = {};  // steps' values; one, unless chained
  ChainPlan chain = {};
};

struct HostPlan {
  TileProgram program;  // as given, with a step of its own for each result
  std::vector<Stage> stages = {};
  std::vector<int> buffer_of = {};  // per value: -1 if it lies in an array, a slot or nowhere
  std::vector<int> buffers = {};    // the value that lies in each buffer
  std::vector<int> result_of = {};  // per value: the result that it is; -1: none
  std::vector<bool> is_read = {};   // per value: a step reads it
};

HostPlan make_host_plan(const TileProgram& program);
std::string to_string(const HostPlan& plan);

}  // namespace tensora::jit
