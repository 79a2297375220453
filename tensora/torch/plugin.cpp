// libtensora_torch.so: what loader.cpp opens once it has found the right LibTorch.
#include <algorithm>

#include "tensora/llm/backends/backend_manager.h"
#include "tensora/torch/backend.h"

extern "C" void tensora_torch_add_frameworks(tensora::llm::BackendManager& manager) {
  using tensora::torch::Backend;
  const auto names = manager.names();
  for (const auto& [name, kind] :
       {std::pair{"libtorch", Backend::Kind::libtorch}, std::pair{"hybrid", Backend::Kind::hybrid}})
    if (std::ranges::find(names, name) == names.end())
      manager.add(
          {.name = name,
           .make = [kind = kind](
                       tensora::Device device) { return std::make_unique<Backend>(kind, device); },
           .version = Backend::version()});
}
