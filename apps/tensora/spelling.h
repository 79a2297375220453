#pragma once

#include <string>
#include <vector>

namespace tensora::cli {

/// The name that somebody most likely meant by a word that is none of them: one that differs in a
/// few letters, or that begins with the word. Empty if none comes close.
std::string nearest(const std::string& word, const std::vector<std::string>& names);

}  // namespace tensora::cli
