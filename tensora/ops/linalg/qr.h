#pragma once

#include "tensora/dispatch/op_def.h"

namespace tensora {

/// Which parts of Q and R are wanted.
enum class QrMode : uint8_t { reduced, complete, r };
constexpr auto names_of(std::type_identity<QrMode>) {
  return std::array<std::string_view, 3>{"reduced", "complete", "r"};
}
struct QrAttrs {
  QrMode mode = QrMode::reduced;
};
/// A -> (Q, R)
extern OpDef<QrAttrs> qr_op;

/// (Q, R): linalg::qr in the mode "reduced", or "complete" unless `some`.
std::tuple<Tensor, Tensor> qr(const Tensor& self, bool some = true);

namespace linalg {

/// (Q, R) with A = Q R, the columns of Q orthonormal and R upper triangular. "reduced" gives
/// min(m, n) columns of Q, "complete" all m, "r" an empty Q.
std::tuple<Tensor, Tensor> qr(const Tensor& A, std::string_view mode = "reduced");

}  // namespace linalg
}  // namespace tensora
