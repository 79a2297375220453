#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>

namespace tensora {

class Tensor;

/// How tensors are printed.
struct PrintOptions {
  int precision = 4;                  // digits after the point
  int64_t threshold = 1000;           // more elements than this are summarised
  int64_t edgeitems = 3;              // then so many are shown at each end of every dim
  int64_t linewidth = 80;             // lines are broken here
  std::optional<bool> sci_mode = {};  // scientific notation; decided per tensor if not set
};
PrintOptions print_options();
/// Applies to the whole process.
void set_printoptions(const PrintOptions& options);

/// PyTorch's printed form; the same as `tensor.to_string()`.
std::ostream& operator<<(std::ostream& stream, const Tensor& tensor);

/// The name of the op that made the tensor; empty for a leaf. Defined by autograd/.
std::string grad_fn_name(const Tensor& tensor);

}  // namespace tensora
