#include "tensora/jit/source_line.h"

#include <atomic>

#include "tensora/autograd/call_stack.h"

namespace tensora::jit {
namespace {

std::atomic<SourceLine> line_of_binding{nullptr};

}  // namespace

void set_source_line(SourceLine function) { line_of_binding = function; }

std::string source_line() {
  const SourceLine function = line_of_binding;
  return function ? function() : std::string();
}

std::string calling_line() {
  std::string line = source_line();
  return line.empty() ? CallStack::here().caller() : line;
}

}  // namespace tensora::jit
