#include "tensora/nn/module_list.h"

#include "tensora/base/check.h"

namespace tensora::nn::detail {

void check_list_index(size_t index, size_t size) {
  check(index < size, "ModuleList: index ", index, " is out of range for ", size, " modules");
}

std::vector<std::pair<std::string, std::string>> folded_entries(const NamedModules& modules) {
  std::vector<std::pair<std::string, std::string>> entries;
  for (size_t first = 0; first < modules.size();) {
    const std::string text = modules[first].second->to_string();
    size_t last = first;
    while (last + 1 < modules.size() && modules[last + 1].second->to_string() == text) ++last;
    if (last == first)
      entries.emplace_back(modules[first].first, text);
    else
      entries.emplace_back(modules[first].first + "-" + modules[last].first,
                           concat(last - first + 1, " x ", text));
    first = last + 1;
  }
  return entries;
}

}  // namespace tensora::nn::detail
