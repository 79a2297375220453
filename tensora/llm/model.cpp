#include "tensora/llm/model.h"

#include <algorithm>

#include "tensora/llm/architecture_list.h"
#include "tensora/llm/file_weights.h"
#include "tensora/llm/registry.h"
#include "tensora/llm/synthetic_weights.h"

namespace tensora::llm {

std::vector<std::string> known_architectures() {
  std::vector<std::string> result;
  for (const NamedArchitecture& each : all_architectures()) result.emplace_back(each.name);
  return result;
}

const Architecture& find_architecture(std::string_view name) {
  for (const NamedArchitecture& each : all_architectures())
    if (each.name == name) return *each.architecture;
  std::string known;
  for (const std::string& each : known_architectures()) known += (known.empty() ? "" : ", ") + each;
  fail("model: the architecture '", name, "' is not known; known are ", known);
}

std::shared_ptr<const Model> load_model(const ModelFile& file, const LoadOptions& options) {
  const ModelConfig config = ModelConfig::from(file);
  check(options.positions >= 0, "load_model: positions must not be negative, got ",
        options.positions);
  FileWeights weights(file, config, options);
  const Architecture& architecture = find_architecture(config.architecture);
  auto model = architecture.make(config, architecture.design, weights);
  weights.check_nothing_is_left();
  return model;
}

std::shared_ptr<const Model> synthetic_model(std::string_view name, std::string_view type,
                                             Device device, int64_t positions) {
  check(positions >= 0, "synthetic_model: positions must not be negative, got ", positions);
  const RegistryEntry& entry = find_registered(name);
  const ModelConfig config = entry.config();
  SyntheticWeights weights(
      config, WeightType(type), device,
      {.tied = entry.details.tied, .fused = entry.architecture == "phi3", .positions = positions});
  const Architecture& architecture = find_architecture(config.architecture);
  return architecture.make(config, architecture.design, weights);
}

}  // namespace tensora::llm
