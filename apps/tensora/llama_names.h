#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace tensora::cli {

/// Replaces llama.cpp's option names in a command line by those of this program where they mean the
/// same. Where an option has no equivalent, returns a sentence that says what to use instead;
/// otherwise an empty text.
std::string translate_llama_names(const CLI::App& app, std::vector<std::string>& words);

}  // namespace tensora::cli
