#include <limits>

#include "tensora/ops/reduce/reduce_cases.h"

namespace tensora::suite {

void any_all_cases(Cases& cases) {
  const auto output_dtype = [](DType dtype) { return dtype == kUInt8 ? kUInt8 : kBool; };
  const ReduceCase some{
      .op = "any",
      .run = [](const Tensor& x, const Dims& dim, bool keepdim) { return any(x, dim, keepdim); },
      .fold =
          [](const Values& values) {
            bool result = false;
            for (double value : values) result |= value != 0;
            return static_cast<double>(result);
          },
      .dtypes = all_dtypes(),
      .output_dtype = output_dtype,
      .opt_out = {{Mode::grad, "the result is bool"}}};
  const ReduceCase every{
      .op = "all",
      .run = [](const Tensor& x, const Dims& dim, bool keepdim) { return all(x, dim, keepdim); },
      .fold =
          [](const Values& values) {
            bool result = true;
            for (double value : values) result &= value != 0;
            return static_cast<double>(result);
          },
      .dtypes = all_dtypes(),
      .output_dtype = output_dtype,
      .opt_out = {{Mode::grad, "the result is bool"}}};
  for (ReduceCase reduction : {some, every}) {
    add_reductions(cases, reduction, reduce_samples());
    add_reductions(cases, reduction, empty_reduce_samples());
    add_dim_errors(cases, reduction.op,
                   [run = reduction.run](const Tensor& x, const Dims& dim) { run(x, dim, false); });
    // One element that differs, wherever it lies.
    reduction.dtypes = {kBool, kUInt8, kInt32, kFloat16, kFloat32, kFloat64};
    for (const size_t odd : {size_t(0), size_t(777), size_t(99999)}) {
      const bool rare = reduction.op == "any";
      Values values(100000, rare ? 0 : 1);
      values[odd] = rare ? 1 : 0;
      add_reduction(cases, reduction, {"one of many", {100000}, {}}, values);
      add_reduction(cases, reduction, {"one of many columns", {20000, 5}, {0}}, values);
      add_reduction(cases, reduction, {"one of many rows", {1000, 100}, {1}}, values);
      for (size_t i = cases.samples.size() - 3; i < cases.samples.size(); ++i)
        cases.samples[i].name += concat(", at ", odd);
    }
    reduction.dtypes = floating_dtypes();
    add_reduction(cases, reduction, {"NaN and a fraction are not zero", {3, 2}, {1}},
                  {0, std::numeric_limits<double>::quiet_NaN(), 0.25, 0.5, -0.0, 0});
  }
}

}  // namespace tensora::suite
