#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tensora::distributed {

/// Writes a line to the standard error, whole even where several ranks share it.
void report(std::string_view line);

/// "rank 3", "ranks 1, 2 and 5"
std::string ranks_text(const std::vector<int>& ranks);

}  // namespace tensora::distributed
