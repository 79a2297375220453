#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "tensora/base/settings.h"
#include "tensora/jit/plan.h"

namespace tensora::jit {

bool is_dumped() { return !path_setting("TENSORA_JIT_DUMP").empty(); }

std::string to_string(const Tape& tape, const Rewrite* rewrite) {
  std::string text;
  for (size_t i = 0; i < tape.size(); ++i) {
    if (rewrite && rewrite->left_out[i]) continue;
    const TapeNode& node = tape.nodes()[i];
    const auto list = [&](std::span<const Operand> operands) {
      for (size_t k = 0; k < operands.size(); ++k)
        text += concat(k == 0 ? "" : ", ",
                       operands[k].memory < 0 ? "none" : concat("%", operands[k].memory));
    };
    list(tape.outputs(node));
    text += concat(" = ", node.op->name, "(");
    list(tape.inputs(node));
    const auto attrs = node.op->list_attrs(node.attrs.get());
    if (!attrs.empty()) text += concat(node.inputs == 0 ? "" : ", ", tensora::to_string(attrs));
    text += ")";
    if (node.outputs > 0) {
      const View& first = tape.outputs(node)[0].view;
      text += concat(" : ", first.dtype, " ", first.sizes);
    }
    text += "\n";
  }
  return text;
}

void dump(const Plan& plan, const Tape& tape, std::string_view recorded) {
  static std::atomic<int> count{0};
  const std::filesystem::path folder(path_setting("TENSORA_JIT_DUMP"));
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  std::string text = concat("# recorded\n", recorded);
  text += concat("\n# without equal and unused ops\n", to_string(tape, &plan.rewrite));
  if (!plan.history.empty()) text += concat("\n", plan.history);
  text += concat("\n# kernels\n", to_string(plan, tape));
  for (const Launch& step : plan.launches)
    if (step.kernel)
      text += concat("\n# program\n", to_string(step.kernel->tile.program()), "\n# code\n",
                     step.kernel->tile.describe());
  // Processes do not overwrite one another's files.
  const std::string name = concat("plan-", ::getpid(), "-", ++count, ".txt");
  std::ofstream file(folder / name);
  file << text;
  if (!file.flush())
    std::cerr << "TENSORA_JIT_DUMP: cannot write " << (folder / name).string() << "\n";
}

}  // namespace tensora::jit
