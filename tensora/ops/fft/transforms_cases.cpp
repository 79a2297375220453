#include "tensora/ops/fft/transforms.h"

#include "tensora/dispatch/op.h"
#include "tensora/ops/fft/fft_cases.h"

namespace tensora::suite {
namespace {

std::map<Mode, std::string> grad_unless_large(const Shape& sizes) {
  if (sizes.numel() <= 200) return {};
  return {{Mode::grad, "too many elements"}};
}

struct Sample {
  Shape sizes;  // of the complex or real numbers
  Dims dims;
};

// Lengths of one, of all radices, of primes that are convolved, in lanes and along vectors; few
// lines and many, neighbours in memory and not.
const std::vector<Sample>& samples() {
  static const std::vector<Sample> all{
      {{3, 1}, {1}},    {{2, 2}, {-1}},        {{5, 3}, {0}},       {{4, 8}, {1}},
      {{6, 5}, {0, 1}}, {{2, 7, 3}, {1}},      {{3, 4, 2}, {2, 0}}, {{2, 3, 2, 4}, {0, 1, 2, 3}},
      {{17, 30}, {1}},  {{30, 17}, {0}},       {{9, 31}, {1}},      {{2, 37}, {1}},
      {{1, 64}, {1}},   {{77, 26}, {0, 1}},    {{0, 4}, {1}},       {{16, 3, 120}, {2}},
      {{521}, {0}},     {{67, 11}, {0}},       {{9, 74}, {1}},      {{900, 2}, {0}},
      {{2, 64}, {1}},   {{3, 128}, {1}},       {{192, 3}, {0}},     {{1, 448}, {1}},
      {{2, 1024}, {1}}, {{128, 35}, {0}},      {{34, 32}, {1, 0}},  {{2, 256, 17}, {1}},
      {{3, 263}, {1}},  {{2, 2, 640}, {2, 0}}, {{2, 128}, {1, 0}},  {{3, 256}, {1, 0}}};
  return all;
}

void complex_cases_of(Cases& cases) {
  for (const Sample& sample : samples())
    for (const bool forward : {true, false}) {
      Shape sizes = sample.sizes;
      sizes.push_back(2);
      cases.add({.op = "fft_c2c",
                 .name = concat(sample.sizes, " along ", sample.dims, forward ? "" : ", inverse"),
                 .inputs = {{sizes}},
                 .run =
                     [=](In x) {
                       return one(to_parts(
                           apply(fft_c2c_op, {from_parts(x[0])}, {sample.dims, 0.25, forward})));
                     },
                 .reference =
                     [=](Arrays x) {
                       Array out = x[0];
                       double scale = 0.25;
                       for (const int64_t dim : sample.dims) {
                         out = transformed(out, wrap_dim(dim, sample.sizes.size(), "cases"),
                                           forward, scale);
                         scale = 1;
                       }
                       return one(out);
                     },
                 .dtypes = {kFloat32, kFloat64},
                 .tolerance = 60,
                 .opt_out = grad_unless_large(sizes)});
    }
}

void real_cases(Cases& cases) {
  for (const Sample& sample : samples()) {
    const int last = wrap_dim(sample.dims.back(), sample.sizes.size(), "cases");
    const int64_t n = sample.sizes[last];
    const auto others = [=](Array x, bool forward) {
      for (int i = 0; i + 1 < sample.dims.size(); ++i)
        x = transformed(x, static_cast<int>(sample.dims[i]), forward);
      return x;
    };
    cases.add({.op = "fft_r2c",
               .name = concat(sample.sizes, " along ", sample.dims),
               .inputs = {{sample.sizes}},
               .run =
                   [=](In x) {
                     return one(to_parts(apply(fft_r2c_op, {x[0]}, {sample.dims, 0.25})));
                   },
               .reference =
                   [=](Arrays x) {
                     const Array all = transformed(with_zeros(x[0]), last, true, 0.25);
                     return one(others(resized(all, last, n / 2 + 1), true));
                   },
               .dtypes = {kFloat32, kFloat64},
               .tolerance = 60,
               .opt_out = grad_unless_large(sample.sizes)});
    Shape half = sample.sizes;
    half[last] = n / 2 + 1;
    half.push_back(2);
    cases.add({.op = "fft_c2r",
               .name = concat(sample.sizes, " along ", sample.dims),
               .inputs = {{half}},
               .run =
                   [=](In x) {
                     return one(apply(fft_c2r_op, {from_parts(x[0])}, {sample.dims, 0.25, n}));
                   },
               .reference =
                   [=](Arrays x) {
                     const Array all = completed(others(x[0], false), last, n);
                     return one(real_parts(transformed(all, last, false, 0.25)));
                   },
               .dtypes = {kFloat32, kFloat64},
               .tolerance = 60,
               .opt_out = grad_unless_large(sample.sizes)});
  }
}

void whole_cases(Cases& cases) {
  for (const Sample& sample : samples())
    for (const bool forward : {true, false}) {
      if (sample.dims.size() > 1) continue;
      const int dim = wrap_dim(sample.dims[0], sample.sizes.size(), "cases");
      cases.add(
          {.op = "fft_real",
           .name = concat(sample.sizes, " along ", dim, forward ? "" : ", inverse"),
           .inputs = {{sample.sizes}},
           .run =
               [=](In x) {
                 return one(to_parts(apply(fft_real_op, {x[0]}, {sample.dims, 0.25, forward})));
               },
           .reference =
               [=](Arrays x) { return one(transformed(with_zeros(x[0]), dim, forward, 0.25)); },
           .dtypes = {kFloat32, kFloat64},
           .tolerance = 60,
           .opt_out = grad_unless_large(sample.sizes)});
    }
}

void mistakes(Cases& cases) {
  const auto z = [] { return full({2, 3}, Complex<double>(1, 2), {.device = device()}); };
  cases.error("fft_c2c", "a real tensor", "expected a complex tensor, got float32", [] {
    apply(fft_c2c_op, {zeros({2}, {.device = device()})}, {{0}, 1, true});
  });
  cases.error("fft_c2c", "no dims", "expected at least one dim", [=] {
    apply(fft_c2c_op, {z()}, {{}, 1, true});
  });
  cases.error("fft_c2c", "a dim twice", "fft_c2c", [=] {
    apply(fft_c2c_op, {z()}, {{1, -1}, 1, true});
  });
  cases.error("fft_r2c", "a complex tensor", "expected a real tensor, got complex64", [=] {
    apply(fft_r2c_op, {z()}, {{0}, 1});
  });
  cases.error("fft_real", "a complex tensor", "expected a real tensor, got complex64", [=] {
    apply(fft_real_op, {z()}, {{0}, 1, true});
  });
  cases.error("fft_real", "two dims", "expected one dim", [] {
    apply(fft_real_op, {zeros({2, 3}, {.device = device()})}, {{0, 1}, 1, true});
  });
  cases.error("fft_c2r", "a size that does not fit", "last_dim_size must be 4 or 5", [=] {
    apply(fft_c2r_op, {z()}, {{1}, 1, 6});
  });
}

}  // namespace

void transforms_cases(Cases& cases) {
  complex_cases_of(cases);
  real_cases(cases);
  whole_cases(cases);
  mistakes(cases);
}

}  // namespace tensora::suite
