#include "tensora/backend/cpu/chain.h"

#include <map>
#include <set>
#include <utility>

namespace tensora::cpu {
namespace {

// Filled while the CPU's kernels are registered, before anybody reads.
struct Table {
  ChainFunctions functions;
  std::map<std::pair<const void*, int>, ChainCode> steps;
  std::set<const void*> exact;
};
Table& table() {
  static Table instance;
  return instance;
}

}  // namespace

const ChainFunctions& chain_functions() { return table().functions; }
void set_chain_functions(const ChainFunctions& functions) { table().functions = functions; }

ChainCode chain_step(const void* op, int position) {
  const auto found = table().steps.find({op, position});
  return found == table().steps.end() ? nullptr : found->second;
}
void set_chain_step(const void* op, int position, ChainCode code) {
  table().steps[{op, position}] = code;
}
bool chain_step_is_exact(const void* op) { return table().exact.contains(op); }
void set_chain_step_is_exact(const void* op) { table().exact.insert(op); }

}  // namespace tensora::cpu
