#pragma once

// Internal header: what the cases of the reductions share.

#include "tests/suite/cases.h"

namespace tensora::suite {

using Values = std::vector<double>;
using Fold = std::function<double(const Values&)>;

/// Applies `fold` to each group of elements that become one, in logical order.
Array reduced(const Array& x, const Dims& dim, bool keepdim, const Fold& fold);

struct ReduceSample {
  const char* name;
  Shape sizes;
  Dims dim;
  bool keepdim = false;
};
/// Small shapes with every kind of dims; none reduces over nothing.
std::span<const ReduceSample> reduce_samples();
/// Shapes that are split among threads.
std::span<const ReduceSample> long_reduce_samples();
/// Rows around the lengths at which CUDA changes the threads that hold a row; more of them than a
/// device has multiprocessors, since fewer long ones are split.
std::span<const ReduceSample> row_reduce_samples();
/// Shapes whose reduced dims have no elements.
std::span<const ReduceSample> empty_reduce_samples();

struct ReduceCase {
  std::string op;
  std::function<Tensor(const Tensor&, const Dims&, bool keepdim)> run;
  Fold fold;
  std::vector<DType> dtypes = floating_dtypes();
  std::function<DType(DType)> output_dtype = nullptr;
  double low = -3, high = 3;
  double tolerance = 1;
  std::map<Mode, std::string> opt_out = {};
};
/// One case per sample.
void add_reductions(Cases& cases, const ReduceCase& reduction,
                    std::span<const ReduceSample> samples);
/// The same for the long samples, with one dtype of each kind to save time.
void add_long_reductions(Cases& cases, ReduceCase reduction);
std::vector<DType> long_dtypes(std::span<const DType> dtypes);
/// A case with given values.
void add_reduction(Cases& cases, const ReduceCase& reduction, const ReduceSample& sample,
                   const Values& values);

/// The three mistakes that every reduction over dims must refuse.
void add_dim_errors(Cases& cases, const std::string& op,
                    const std::function<void(const Tensor&, const Dims&)>& run);

/// The gradient of sum(run(x)) as a case of its own, for points where finite differences fail.
Case gradient_case(const std::string& op, const std::string& name, const Shape& sizes,
                   const Values& values, const Values& expected,
                   const std::function<Tensor(const Tensor&)>& run);

inline DType int_to_int64(DType dtype) { return is_floating_point(dtype) ? dtype : kInt64; }

}  // namespace tensora::suite
