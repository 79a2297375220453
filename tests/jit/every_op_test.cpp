// Every pointwise op and reduction between fused neighbours: the bits, or nearly, of eager
// execution.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "tensora/dispatch/op.h"
#include "tensora/jit/compile.h"
#include "tensora/jit/stats.h"
#include "tensora/tensora.h"

namespace tensora::test {
namespace {

/// The bytes of a tensor's elements; a NaN counts as one value.
std::vector<double> contents(const Tensor& tensor) {
  std::vector<double> result = to_vector<double>(tensor.to(kFloat64));
  for (double& value : result)
    if (std::isnan(value)) value = std::numeric_limits<double>::quiet_NaN();
  return result;
}
// The ends of runs that are not whole vectors are computed by the scalar version of functions such
// as exp, which may differ from the vector one in the last bit; the runs of fused kernels are
// others.
void expect_same(const std::vector<double>& a, const std::vector<double>& b, bool exactly) {
  ASSERT_EQ(a.size(), b.size());
  if (exactly) {
    EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(double)), 0);
    return;
  }
  for (size_t i = 0; i < a.size(); ++i) {
    if ((std::isnan(a[i]) && std::isnan(b[i])) || a[i] == b[i]) continue;
    EXPECT_LE(std::abs(a[i] - b[i]), 2e-6 * (0.1 + std::abs(b[i]))) << i;
  }
}

enum class Layout : uint8_t { whole_vectors, odd, strided };

std::vector<Tensor> inputs_for(const OpBase& op, DType dtype, Layout layout) {
  std::vector<Tensor> inputs;
  manual_seed(9);
  for (size_t i = 0; i < std::max<size_t>(op.inputs.least(), 1); ++i) {
    const Shape sizes = layout == Layout::whole_vectors ? Shape{12, 64} : Shape{13, 67};
    const Tensor wide = (rand(sizes) * 3 + 0.25).to(dtype);
    inputs.push_back(layout == Layout::strided ? wide.slice(1, 1, 64, 3).transpose(0, 1) : wide);
  }
  return inputs;
}

/// The op's results with a copy before it and a comparison behind it, so that it is in a group.
std::vector<Tensor> sandwich(const OpBase& op, std::span<const Tensor> inputs) {
  std::vector<Tensor> given;
  for (const Tensor& input : inputs)
    given.push_back(input.dtype() == kBool ? logical_not(input) : maximum(input, input));
  std::vector<Tensor> results;
  for (const Tensor& result : apply_by_name(op.name, given, {})) {
    results.push_back(result);
    results.push_back(result != result);
  }
  return results;
}

TEST(EveryPointwiseOp, BetweenFusedNeighboursHasEagersBits) {
  int ran = 0, fused = 0;
  for (const OpBase* op : op_registry().all()) {
    if (!op->pointwise || op->random || op->internal) continue;
    for (const DType dtype : {kFloat32, kFloat64, kBFloat16, kInt64, kUInt8, kBool})
      for (const Layout layout : {Layout::whole_vectors, Layout::odd, Layout::strided}) {
        SCOPED_TRACE(concat(op->name, " of ", dtype, ", layout ", static_cast<int>(layout)));
        const std::vector<Tensor> inputs = inputs_for(*op, dtype, layout);
        std::vector<Tensor> eager;
        try {
          eager = sandwich(*op, inputs);
        } catch (const Error&) {
          continue;  // not for this dtype, or needs attributes
        }
        const uint64_t before = jit::stats().fused_ops;
        const std::vector<Tensor> lazily =
            compile([&] { return sandwich(*op, inputs); }, {.fuse = Fuse::everything})();
        ++ran;
        fused += jit::stats().fused_ops > before;
        ASSERT_EQ(lazily.size(), eager.size());
        for (size_t i = 0; i < eager.size(); ++i) {
          EXPECT_EQ(lazily[i].dtype(), eager[i].dtype());
          EXPECT_EQ(to_string(lazily[i].strides()), to_string(eager[i].strides()));
          if (is_complex(eager[i].dtype())) continue;
          expect_same(contents(lazily[i]), contents(eager[i]), layout == Layout::whole_vectors);
        }
      }
  }
  EXPECT_GT(ran, 800);
  EXPECT_GT(fused, ran * 9 / 10);
}

TEST(EveryRowOp, BetweenFusedNeighboursIsNearEager) {
  manual_seed(2);
  const Tensor x = rand({9, 40}) + 0.5;
  for (const char* name : {"sum", "mean", "nansum", "prod", "amax", "amin", "any", "all",
                           "logsumexp", "softmax", "log_softmax", "count_nonzero"}) {
    SCOPED_TRACE(name);
    const OpBase* op = op_registry().find(name);
    ASSERT_NE(op, nullptr);
    const bool lists = std::string_view(name).find("softmax") == std::string_view::npos;
    const auto body = [&] {
      const std::pair<std::string, AttrValue> dim{
          "dim", lists ? to_attr_value(std::vector<int64_t>{-1}) : to_attr_value(int64_t{-1})};
      const Tensor given[] = {x * 1.01 - 0.001};
      return apply_by_name(name, given, {&dim, 1})[0].to(kFloat32) * 2;
    };
    const auto eager = contents(body()),
               fused = contents(compile(body, {.fuse = Fuse::everything})());
    ASSERT_EQ(eager.size(), fused.size());
    for (size_t i = 0; i < eager.size(); ++i)
      ASSERT_NEAR(fused[i], eager[i], 1e-5 * (1 + std::abs(eager[i])));
  }
}

}  // namespace
}  // namespace tensora::test
