// How modules are printed.
#include <cxxabi.h>

#include <cstdlib>
#include <memory>
#include <ostream>
#include <typeinfo>

#include "tensora/nn/module.h"

namespace tensora::nn {

std::string Module::name() const {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> readable(
      abi::__cxa_demangle(typeid(*this).name(), nullptr, nullptr, &status), &std::free);
  std::string name = status == 0 ? readable.get() : typeid(*this).name();
  if (name.back() == '>') {  // "a::List<b::Block>" is a List
    size_t first = name.size() - 1;
    for (int depth = 1; depth > 0 && first > 0;) {
      --first;
      depth += name[first] == '>' ? 1 : name[first] == '<' ? -1 : 0;
    }
    name.resize(first);
  }
  const size_t colon = name.rfind(':');
  return colon == std::string::npos ? name : name.substr(colon + 1);
}

std::string Module::tree(const std::vector<std::pair<std::string, std::string>>& entries) const {
  const std::string extra = extra_repr();
  if (entries.empty()) return name() + "(" + extra + ")";
  std::string text = name() + "(";
  if (!extra.empty()) text += "\n  " + extra;
  for (const auto& [label, body] : entries) {
    text += "\n  (" + label + "): ";
    for (const char letter : body) {
      text += letter;
      if (letter == '\n') text += "  ";
    }
  }
  return text + "\n)";
}

std::string Module::to_string() const {
  std::vector<std::pair<std::string, std::string>> entries;
  for (const auto& [name, child] : child_list())
    if (child) entries.emplace_back(name, child->to_string());
  return tree(entries);
}

std::ostream& operator<<(std::ostream& out, const Module& module) {
  return out << module.to_string();
}

}  // namespace tensora::nn
