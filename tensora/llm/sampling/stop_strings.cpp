#include "tensora/llm/sampling/stop_strings.h"

#include <algorithm>
#include <utility>

#include "tensora/base/check.h"

namespace tensora::llm {

StopStrings::StopStrings(std::vector<std::string> stops) : stops_(std::move(stops)) {
  for (const std::string& stop : stops_)
    check(!stop.empty(), "stop strings: expected texts, got an empty one");
}

std::string StopStrings::push(std::string_view text) {
  if (stopped()) return {};
  held_ += text;
  size_t end = std::string::npos;
  for (size_t i = 0; i < stops_.size(); ++i) {
    const size_t start = held_.find(stops_[i]);
    if (start == std::string::npos) continue;
    const size_t here = start + stops_[i].size();
    if (here < end || (here == end && stops_[i].size() > stops_[*met_].size())) {
      end = here;
      met_ = i;
    }
  }
  if (stopped()) {
    std::string shown = held_.substr(0, end - stops_[*met_].size());
    held_.clear();
    return shown;
  }
  size_t keep = 0;  // the longest end of the text that begins one of the strings
  for (const std::string& stop : stops_)
    for (size_t n = std::min(stop.size() - 1, held_.size()); n > keep; --n)
      if (held_.compare(held_.size() - n, n, stop, 0, n) == 0) {
        keep = n;
        break;
      }
  std::string shown = held_.substr(0, held_.size() - keep);
  held_.erase(0, held_.size() - keep);
  return shown;
}

std::string StopStrings::finish() { return stopped() ? std::string{} : std::exchange(held_, {}); }

}  // namespace tensora::llm
