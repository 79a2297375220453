// Registers nothing: functions of other ops.
#include "tensora/ops/matrix/products.h"

#include "tensora/core/tensor.h"
#include "tensora/dispatch/autocast_call.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/matrix/addmm.h"
#include "tensora/ops/matrix/matmul.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/shape/permute.h"
#include "tensora/ops/shape/reshape.h"

namespace tensora {
namespace {

// The batch becomes part of the dim that is summed over: [n, b * m] times [b * m, p].
struct SummedBatch {
  Tensor mat1, mat2;
};
SummedBatch summed_batch(const Tensor& batch1, const Tensor& batch2) {
  check(batch1.dim() == 3 && batch2.dim() == 3, "addbmm: expected batches of matrices, got shapes ",
        batch1.sizes(), " and ", batch2.sizes());
  check(batch1.size(0) == batch2.size(0) && batch1.size(2) == batch2.size(1),
        "addbmm: matrices of shapes ", batch1.sizes(), " and ", batch2.sizes(),
        " cannot be multiplied");
  const int64_t depth = batch1.size(0) * batch1.size(2);
  return {reshape(transpose(batch1, 0, 1), {batch1.size(1), depth}),
          reshape(batch2, {depth, batch2.size(2)})};
}

// For each run of matrices the least number of multiplications, and where its last product divides
// it.
class Order {
 public:
  explicit Order(const std::vector<Tensor>& matrices)
      : matrices_(matrices), cut_(matrices.size() * matrices.size()) {
    const size_t n = matrices.size();
    std::vector<double> cost(n * n, 0);
    for (size_t length = 2; length <= n; ++length)
      for (size_t first = 0; first + length <= n; ++first) {
        const size_t last = first + length - 1;
        double& least = cost[first * n + last];
        for (size_t cut = first; cut < last; ++cut) {
          const double product = static_cast<double>(matrices[first].size(0)) *
                                 static_cast<double>(matrices[cut].size(1)) *
                                 static_cast<double>(matrices[last].size(1));
          const double total = cost[first * n + cut] + cost[(cut + 1) * n + last] + product;
          if (cut > first && total >= least) continue;
          least = total;
          cut_[first * n + last] = cut;
        }
      }
  }
  Tensor product(size_t first, size_t last) const {
    if (first == last) return matrices_[first];
    const size_t cut = cut_[first * matrices_.size() + last];
    return mm(product(first, cut), product(cut + 1, last));
  }

 private:
  const std::vector<Tensor>& matrices_;
  std::vector<size_t> cut_;
};

}  // namespace

Tensor addbmm(const Tensor& self, const Tensor& batch1, const Tensor& batch2, Scalar beta,
              Scalar alpha) {
  const SummedBatch product = summed_batch(batch1, batch2);
  return addmm(self, product.mat1, product.mat2, beta, alpha);
}

const Tensor& addbmm_(const Tensor& self, const Tensor& batch1, const Tensor& batch2, Scalar beta,
                      Scalar alpha) {
  const SummedBatch product = summed_batch(batch1, batch2);
  return addmm_(self, product.mat1, product.mat2, beta, alpha);
}

const Tensor& addmv_(const Tensor& self, const Tensor& mat, const Tensor& vec, Scalar beta,
                     Scalar alpha) {
  const Tensor result = addmv(self, mat, vec, beta, alpha);
  check(result.sizes() == self.sizes(), "addmv_: the result of shape ", result.sizes(),
        " does not fit in place into shape ", self.sizes());
  return copy_(self, result);
}

const Tensor& addr_(const Tensor& self, const Tensor& vec1, const Tensor& vec2, Scalar beta,
                    Scalar alpha) {
  const Tensor result = addr(self, vec1, vec2, beta, alpha);
  check(result.sizes() == self.sizes(), "addr_: the result of shape ", result.sizes(),
        " does not fit in place into shape ", self.sizes());
  return copy_(self, result);
}

Tensor bilinear(const Tensor& input1, const Tensor& input2, const Tensor& weight) {
  return bilinear(input1, input2, weight, Tensor());
}

Tensor bilinear(const Tensor& input1, const Tensor& input2, const Tensor& weight,
                const Tensor& bias) {
  if (is_autocast_enabled())
    return autocast_call(
        "bilinear", {Autocast::as_is, Autocast::widest},
        [](const Tensor& a, const Tensor& b, const Tensor& w, const Tensor& c) {
          return bilinear(a, b, w, c);
        },
        input1, input2, weight, bias);
  check(weight.dim() == 3, "bilinear: expected a weight of 3 dims, got shape ", weight.sizes());
  check(input1.dim() > 0 && input1.dim() == input2.dim(),
        "bilinear: expected inputs of as many dims, got shapes ", input1.sizes(), " and ",
        input2.sizes());
  const int64_t outputs = weight.size(0), in1 = weight.size(1), in2 = weight.size(2);
  check(input1.size(-1) == in1 && input2.size(-1) == in2, "bilinear: a weight of shape ",
        weight.sizes(), " does not fit inputs of shapes ", input1.sizes(), " and ", input2.sizes());
  Shape sizes = input1.sizes();
  for (int i = 0; i + 1 < input1.dim(); ++i)
    check(sizes[i] == input2.sizes()[i], "bilinear: inputs of shapes ", sizes, " and ",
          input2.sizes(), " differ in dimension ", i);
  int64_t rows = 1;
  for (int i = 0; i + 1 < input1.dim(); ++i) rows *= sizes[i];
  // First x1 with every weight[k], then each result with x2.
  const Tensor first =
      mm(reshape(input1, {rows, in1}), reshape(permute(weight, {1, 0, 2}), {in1, outputs * in2}));
  const Tensor product = bmm(reshape(first, {rows, outputs, in2}), reshape(input2, {rows, in2, 1}));
  sizes[input1.dim() - 1] = outputs;
  const Tensor result = reshape(product, sizes);
  if (!bias.defined()) return result;
  check(bias.sizes() == Shape{outputs}, "bilinear: expected a bias of shape [", outputs, "], got ",
        bias.sizes());
  return result + bias;
}

Tensor chain_matmul(const std::vector<Tensor>& matrices) {
  check(!matrices.empty(), "chain_matmul: expected at least one matrix");
  for (size_t i = 0; i < matrices.size(); ++i) {
    check(matrices[i].dim() == 2, "chain_matmul: expected matrices, got shape ",
          matrices[i].sizes());
    check(i == 0 || matrices[i - 1].size(1) == matrices[i].size(0),
          "chain_matmul: matrices numbers ", i - 1, " and ", i, " cannot be multiplied, of shapes ",
          matrices[i - (i > 0)].sizes(), " and ", matrices[i].sizes());
  }
  return Order(matrices).product(0, matrices.size() - 1);
}

}  // namespace tensora
