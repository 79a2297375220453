#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace tensora::cli {

/// Shows a progress bar on a terminal while `work` runs; `work` calls what it is given with the
/// bytes done and of all. A signal that asks the program to end makes that call throw Interrupted.
void with_progress(const std::string& title, bool quiet,
                   const std::function<void(std::function<void(uint64_t, uint64_t)>)>& work);

/// Throws a UsageError where `path` exists and may not be replaced, or is what is read.
void check_output(const std::string& input, const std::string& path, bool overwrite);

}  // namespace tensora::cli
