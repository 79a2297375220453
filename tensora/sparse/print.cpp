#include <ostream>

#include "tensora/core/print.h"
#include "tensora/core/text.h"
#include "tensora/sparse/sparse_tensor.h"

namespace tensora::sparse {
namespace {

// "name=tensor(…)", its further lines indented below the first one. Device and dtype are shown
// once, for the whole.
std::string part(const std::string& start, const std::string& name, const Tensor& tensor) {
  const Tensor plain = tensor.device().is_meta() ? tensor.detach() : tensor.detach().cpu();
  std::string printed = plain.to_string();
  if (const size_t suffix = printed.rfind(", dtype="); suffix != std::string::npos)
    printed = printed.substr(0, suffix) + ")";
  std::string text = name + "=";
  const std::string indent(7 + text.size(), ' ');
  for (const char letter : printed) {
    text += letter;
    if (letter == '\n') text += indent;
  }
  return start + text;
}

std::string in_parentheses(const Shape& sizes) {
  std::string text = "(";
  for (int d = 0; d < sizes.size(); ++d) text += concat(d > 0 ? ", " : "", sizes[d]);
  return text + (sizes.size() == 1 ? ",)" : ")");
}

}  // namespace

std::string SparseTensor::to_string() const {
  if (!defined()) return "[ Undefined sparse tensor ]";
  const std::string next = ",\n       ";
  std::string text = is_sparse()
                         ? part("tensor(", "indices", indices_)
                         : part("tensor(", "crow_indices", crow_) + part(next, "col_indices", col_);
  text += part(next, "values", values_);
  text += next + "size=" + in_parentheses(sizes_) + concat(", nnz=", _nnz());
  if (dtype() != default_dtype() && dtype() != kInt64 && dtype() != kBool)
    text += concat(", dtype=torch.", dtype());
  if (!device().is_cpu()) text += concat(", device='", device(), "'");
  text += is_sparse() ? ", layout=torch.sparse_coo" : ", layout=torch.sparse_csr";
  if (requires_grad()) text += ", requires_grad=True";
  return text + ")";
}

std::ostream& operator<<(std::ostream& stream, const SparseTensor& tensor) {
  return stream << tensor.to_string();
}

}  // namespace tensora::sparse
