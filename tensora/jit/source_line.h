#pragma once

// Internal header: where the user's program is, for what `explain` prints.

#include <string>

namespace tensora::jit {

/// The user's line that is being executed, such as "train.py:12"; empty if it is not known.
using SourceLine = std::string (*)();
/// A binding for another language names its function.
void set_source_line(SourceLine function);
/// What that function says; empty if there is none.
std::string source_line();
/// The same, or else the C++ function that called the library.
std::string calling_line();

}  // namespace tensora::jit
