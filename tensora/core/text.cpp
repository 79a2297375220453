#include "tensora/core/text.h"

#include <ostream>

namespace tensora {

void append(std::string& out, Scalar number) {
  switch (number.kind()) {
    case Scalar::Kind::boolean:
      return append(out, number.to<bool>());
    case Scalar::Kind::integer:
      return append(out, number.to<int64_t>());
    default:
      return append(out, number.to<double>());
  }
}

void append(std::string& out, const TensorOptions& options) {
  out += "TensorOptions(";
  if (options.dtype) out += concat("dtype=", *options.dtype, ", ");
  if (options.device) out += concat("device=", *options.device, ", ");
  out += concat("requires_grad=", bool{options.requires_grad}, ")");
}

std::ostream& detail::write(std::ostream& stream, std::string_view text) { return stream << text; }

}  // namespace tensora
