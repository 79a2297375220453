#pragma once

// Internal header: what the handles to one module share.

#include "tensora/nn/module.h"

namespace tensora::nn {

struct ModuleState {
  struct NamedBuffer {
    std::string name;
    Tensor tensor;
    bool persistent;
  };
  template <class Hook>
  struct Registered {
    uint64_t id;
    Hook call;
  };
  struct Hooks {
    std::vector<Registered<ForwardPreHook>> before;
    std::vector<Registered<ForwardHook>> after;
    std::vector<Registered<BackwardHook>> backward;
    bool empty() const { return before.empty() && after.empty() && backward.empty(); }
  };

  NamedTensors parameters;  // undefined where the layer goes without
  std::vector<NamedBuffer> buffers;
  NamedModules children;        // null where a module goes without
  std::string held_by_pointer;  // the name of a child of which a member is a pointer
  bool training = true;
  Hooks hooks;
  bool hooked = false;  // !hooks.empty()
};

}  // namespace tensora::nn
