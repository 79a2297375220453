#include "tensora/ops/reduce/reduce_cases.h"

namespace tensora::suite {

Array reduced(const Array& x, const Dims& dim, bool keepdim, const Fold& fold) {
  const int rank = x.sizes.size();
  std::vector<bool> reduces(static_cast<size_t>(rank), dim.empty());
  for (int64_t d : dim)
    if (rank > 0) reduces[static_cast<size_t>(d < 0 ? d + rank : d)] = true;
  Shape kept, result;  // with the reduced dims as 1, and as the result has them
  for (int d = 0; d < rank; ++d) {
    const bool gone = reduces[static_cast<size_t>(d)];
    kept.push_back(gone ? 1 : x.sizes[d]);
    if (!gone || keepdim) result.push_back(kept.back());
  }
  Array place(kept);
  std::vector<Values> groups(static_cast<size_t>(place.numel()));
  Array::each(x.sizes, [&](const Shape& index) {
    Shape target = index;
    for (int d = 0; d < rank; ++d)
      if (reduces[static_cast<size_t>(d)]) target[d] = 0;
    groups[static_cast<size_t>(place.offset(target))].push_back(x.at(index));
  });
  Array out(result);
  for (int64_t i = 0; i < out.numel(); ++i) out[i] = fold(groups[static_cast<size_t>(i)]);
  return out;
}

std::span<const ReduceSample> reduce_samples() {
  static const std::vector<ReduceSample> samples = {
      {"all", {3, 4, 5}, {}},
      {"all keepdim", {3, 4}, {}, true},
      {"rows", {5, 37}, {1}},
      {"long rows", {3, 200}, {1}},
      {"short rows", {70, 3}, {1}},
      {"columns", {37, 5}, {0}},
      {"wide columns", {6, 1100}, {0}},
      {"narrow columns", {350, 2}, {0}},
      {"middle", {3, 20, 5}, {1}, true},
      {"outer and inner", {3, 4, 6}, {0, 2}},
      {"negative dim", {4, 6}, {-1}},
      {"negative dims", {2, 3, 4}, {-1, 0}, true},
      {"four dims", {2, 3, 4, 5}, {3, 1}},
      {"0-dim", {}, {}},
      {"0-dim over 0", {}, {0}},
      {"0-dim over -1", {}, {-1}, true},
      {"one element", {1}, {0}},
      {"dims of size 1", {1, 5, 1}, {0, 2}},
      {"no outputs", {0, 3}, {1}},
  };
  return samples;
}

std::span<const ReduceSample> long_reduce_samples() {
  static const std::vector<ReduceSample> samples = {
      {"one long run", {70000}, {}},
      {"few long rows", {2, 70000}, {1}},
      {"many rows", {1000, 100}, {1}},
      {"long columns", {4000, 30}, {0}},
      {"long wide columns", {100, 1500}, {0}},
      {"long narrow columns", {30000, 3}, {0}},
      {"channels", {3, 2, 150, 80}, {0, 2, 3}},
  };
  return samples;
}

std::span<const ReduceSample> row_reduce_samples() {
  static const std::vector<ReduceSample> samples = {
      {"rows too short to hold", {300, 31}, {1}},
      {"rows of 32", {300, 32}, {1}},
      {"rows that a warp holds", {200, 1024}, {1}},
      {"odd rows that a warp holds", {200, 1023}, {1}},
      {"rows that a block holds", {200, 1028}, {1}},
      {"odd rows that a block holds", {200, 2047}, {1}},
      {"longer rows that a block holds", {200, 4096}, {1}},
  };
  return samples;
}

std::span<const ReduceSample> empty_reduce_samples() {
  static const std::vector<ReduceSample> samples = {
      {"nothing", {0}, {}},
      {"empty rows", {3, 0}, {1}},
      {"empty columns", {0, 3}, {0}, true},
      {"all of an empty matrix", {0, 3}, {}},
  };
  return samples;
}

namespace {

Case make_case(const ReduceCase& reduction, const ReduceSample& sample) {
  return {.op = reduction.op,
          .name = sample.name,
          .inputs = {{.sizes = sample.sizes, .low = reduction.low, .high = reduction.high}},
          .run = [reduction,
                  sample](In x) { return one(reduction.run(x[0], sample.dim, sample.keepdim)); },
          .reference =
              [reduction, sample](Arrays x) {
                return one(reduced(x[0], sample.dim, sample.keepdim, reduction.fold));
              },
          .dtypes = reduction.dtypes,
          .output_dtype = reduction.output_dtype,
          .tolerance = reduction.tolerance,
          .opt_out = reduction.opt_out};
}

}  // namespace

std::vector<DType> long_dtypes(std::span<const DType> dtypes) {
  std::vector<DType> result;
  for (DType dtype : dtypes)
    if (dtype == kFloat16 || dtype == kFloat32 || dtype == kFloat64 || dtype == kInt32)
      result.push_back(dtype);
  return result;
}

void add_long_reductions(Cases& cases, ReduceCase reduction) {
  reduction.dtypes = long_dtypes(reduction.dtypes);
  add_reductions(cases, reduction, long_reduce_samples());
}

void add_reductions(Cases& cases, const ReduceCase& reduction,
                    std::span<const ReduceSample> samples) {
  for (const ReduceSample& sample : samples) cases.add(make_case(reduction, sample));
}

void add_reduction(Cases& cases, const ReduceCase& reduction, const ReduceSample& sample,
                   const Values& values) {
  Case result = make_case(reduction, sample);
  result.inputs[0].values = values;
  cases.add(std::move(result));
}

void add_dim_errors(Cases& cases, const std::string& op,
                    const std::function<void(const Tensor&, const Dims&)>& run) {
  cases.error(op, "dim too large", "out of range", [run] { run(ones({2, 3}), {2}); });
  cases.error(op, "dim too small", "out of range", [run] { run(ones({2, 3}), {0, -3}); });
  cases.error(op, "dim of a 0-dim tensor", "out of range", [run] { run(ones({}), {1}); });
  cases.error(op, "dim named twice", "more than once", [run] { run(ones({2, 3}), {1, -1}); });
}

Case gradient_case(const std::string& op, const std::string& name, const Shape& sizes,
                   const Values& values, const Values& expected,
                   const std::function<Tensor(const Tensor&)>& run) {
  return {.op = op,
          .name = name,
          .inputs = {{.sizes = sizes, .values = values}},
          .run =
              [run](In x) {
                const Tensor leaf = x[0].detach().requires_grad_();
                return one(grad(sum(run(leaf)), {leaf})[0]);
              },
          .reference =
              [expected](Arrays x) {
                Array result(x[0].sizes);
                result.values = expected;
                return one(result);
              },
          .dtypes = {kFloat32, kFloat64},
          .opt_out = {{Mode::grad, "the case is a gradient itself"},
                      {Mode::view, "the expected gradient belongs to these very values"},
                      {Mode::meta, "needs values"},
                      {Mode::jit, "needs values"}}};
}

// What the reductions are made of.
void reduce_cases(Cases& cases) {
  for (const bool keepdim : {false, true})
    cases.add({.op = "unreduce",
               .name = keepdim ? "second order of sum, keepdim" : "second order of sum",
               .inputs = {{{3, 4, 2}}},
               .run =
                   [keepdim](In x) {
                     return one(sum(x[0] * x[0] * x[0], {0, 2}, keepdim));
                   },
               .reference =
                   [keepdim](Arrays x) {
                     return one(reduced(x[0], {0, 2}, keepdim, [](const Values& values) {
                       double total = 0;
                       for (double value : values) total += value * value * value;
                       return total;
                     }));
                   },
               .dtypes = {kFloat32, kFloat64}});
}

}  // namespace tensora::suite
