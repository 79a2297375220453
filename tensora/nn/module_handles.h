#pragma once

// Internal header: where the handles to modules are in memory.

#include <cstdint>
#include <map>
#include <mutex>

#include "tensora/nn/module_state.h"

namespace tensora::nn {

/// Note [Assignment to members]
/// `net.hidden = nn::Linear(784, 256)` must change three things: the member, the module that `net`
/// has registered under "hidden", and the member `hidden` of every other handle to `net` (a net
/// that is itself a member has at least two: the member, and the one in its parent's list). The
/// same holds for a parameter: `net.output.weight = net.embedding.weight` ties two weights.
///
/// A handle does not know that it is a member. It is one if its address lies within another handle,
/// so all handles are kept here, by address and with the size of their class. An assignment looks
/// for the innermost handle around its target. If that layer has registered what the target held,
/// the new module or tensor is registered instead. Anything else is a local variable and is only
/// rebound. Handles in the memory of a member (a std::vector) count as local variables; a
/// ModuleList does not have this problem because it has no members.
class ModuleHandles {
 public:
  struct Handle {
    Module* module;
    size_t size;                                        // of the class whose base it is
    ModuleState* state;                                 // a copy of module->state_, under the lock
    std::vector<std::weak_ptr<ModuleState>> listed_in;  // parents whose list of children holds it
  };

  static void add(Module& module, size_t size);
  static void remove(const Module& module);
  /// Tells that `parent` holds this handle in its list of children.
  static void list(const Module& child, const std::shared_ptr<ModuleState>& parent);
  /// Makes `module` a handle to `state`, without a look at members.
  static void bind(Module& module, const std::shared_ptr<ModuleState>& state);

  /// The innermost handle with `address` among its members; null if there is none.
  static Module* around(const void* address);
  /// The parents whose lists hold this very handle.
  static std::vector<std::shared_ptr<ModuleState>> parents_listing(const Module& child);
  /// The members, in all handles to `parent`, that are handles to `child`.
  static std::vector<Module*> members(const ModuleState& parent, const ModuleState& child);
  /// The places, in the other handles to the module of `handle`, of what is at `member` in
  /// `handle`.
  static std::vector<void*> same_member(const Module& handle, const void* member);
  /// The children of `parent` that are handles to `child`.
  static std::vector<ModulePtr> entries(const ModuleState& parent, const ModuleState* child);
  /// Registers `value` in the place of a member of `layer`, if that is registered, and assigns it
  /// to the same member of all other handles to the layer.
  static void replace(const Module& layer, const Tensor& member, const Tensor& value);

 private:
  using Map = std::map<uintptr_t, Handle>;
  static ModuleHandles& all();
  /// With the lock held.
  Map::iterator find_around(uintptr_t address);

  std::mutex mutex_;
  Map handles_;  // by address
};

}  // namespace tensora::nn
