#pragma once

namespace tensora::jit {

/// The functor headers as text, for run-time compilation.
struct EmbeddedFile {
  const char* name;
  const char* text;
};
extern const EmbeddedFile embedded_files[];
extern const int embedded_file_count;

}  // namespace tensora::jit
