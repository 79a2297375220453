#include "tensora/distributed/report.h"

#include <unistd.h>

#include "tensora/base/check.h"

namespace tensora::distributed {

void report(std::string_view line) {
  const std::string text = concat("tensora: ", line, "\n");
  // Nothing is left to do where the standard error is closed.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
}

std::string ranks_text(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (i) append(text, i + 1 == ranks.size() ? " and " : ", ");
    append(text, ranks[i]);
  }
  return text;
}

}  // namespace tensora::distributed
