#pragma once

namespace tensora::jit {

/// The functor headers as text, for run-time compilation; generated.
struct EmbeddedFile {
  const char* name;
  const char* text;
};
extern const EmbeddedFile embedded_files[];
extern const int embedded_file_count;

/// The C++ type behind a pointwise op, and where its text is: {"add", "functors::Add",
/// "tensora/ops/pointwise/binary.h"}. Gradients are functors::Backward<functors::Add, 0>.
struct FunctorName {
  const char* op;
  const char* type;
  const char* header;
};
extern const FunctorName functor_names[];
extern const int functor_name_count;

}  // namespace tensora::jit
