#include "tensora/llm/resource_manager.h"

#include "tensora/base/check.h"
#include "tensora/core/backend.h"

namespace tensora::llm {
namespace {

constexpr int64_t kLittleContext = 256;

std::string gigabytes(uint64_t bytes) {
  const uint64_t hundredths = bytes / 10000000;
  return concat(hundredths / 100, ".", hundredths / 10 % 10, hundredths % 10, " GB");
}

std::string plan_text(const MemoryPlan& plan) {
  std::string out =
      concat("weights ", gigabytes(plan.weights), ", keys and values of ", plan.context, " tokens ",
             gigabytes(plan.cache), ", workspace ", gigabytes(plan.workspace), ": ",
             gigabytes(plan.needed()), " of ", gigabytes(plan.memory), " that are free");
  if (plan.changes.empty()) return out;
  out += "; it would fit with";
  for (size_t i = 0; i < plan.changes.size(); ++i)
    out += concat(i > 0 ? " or " : " ", plan.changes[i].option);
  return out;
}

}  // namespace

ResourceManager::ResourceManager(Device device) : device_(device), metrics_(device) {}

ResourceManager::~ResourceManager() {
  try {
    empty_cache(device_);
  } catch (...) {  // NOLINT: memory that a broken device keeps cannot be returned
  }
}

std::string ResourceManager::admit(const ModelFile& file, MemoryPlanOptions options) const {
  options.device = device_;
  if (options.context == 0) options.context = kLittleContext;
  const MemoryPlan plan = plan_memory(file, options);
  if (plan.fits() || plan.memory == 0) return {};  // 0: the device does not say
  const bool maps = device_.is_cpu() && options.quantize.empty();
  if (maps && plan.cache + plan.workspace <= plan.memory)
    return concat("the weights do not fit into memory and are read again and again: ",
                  plan_text(plan));
  fail("the model does not fit into the memory of ", device_, ": ", plan_text(plan));
}

}  // namespace tensora::llm
