#include "tensora/dispatch/sharding.h"

#include <unordered_map>

#include "tensora/base/check.h"
#include "tensora/base/fork.h"

namespace tensora {
namespace {

// Filled while the ops are registered, before any call; read only afterwards.
std::unordered_map<const OpBase*, ShardEntry>& entries() {
  static constinit MadeOnce<std::unordered_map<const OpBase*, ShardEntry>> made;
  return made.get();
}

}  // namespace

void detail::add_shard_entry(const OpBase& op, const ShardEntry& entry) {
  ensure(entries().emplace(&op, entry).second, op.name, ": two shard rules");
}

const ShardEntry* shard_entry(const OpBase& op) {
  const auto found = entries().find(&op);
  return found == entries().end() ? nullptr : &found->second;
}

}  // namespace tensora
