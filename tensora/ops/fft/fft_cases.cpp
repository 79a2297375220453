#include "tensora/ops/fft/fft.h"

#include "tensora/ops/fft/fft_cases.h"

namespace tensora::suite {
namespace {

using Line = Tensor (*)(const Tensor&, std::optional<int64_t>, int64_t,
                        std::optional<std::string_view>);

/// A function of one dim: `real` says what it takes and gives.
struct Function {
  const char* name;
  Line run;
  bool forward;
  bool real_in = false, real_out = false;
};

constexpr Function kFunctions[] = {{"fft", fft::fft, true},
                                   {"ifft", fft::ifft, false},
                                   {"rfft", fft::rfft, true, true},
                                   {"ihfft", fft::ihfft, false, true},
                                   {"irfft", fft::irfft, false, false, true},
                                   {"hfft", fft::hfft, true, false, true}};

double scale_of(std::string_view norm, bool forward, int64_t n) {
  const auto count = static_cast<double>(n);
  if (norm == "ortho") return 1 / std::sqrt(count);
  return (norm == "forward") == forward ? 1 / count : 1;
}

/// By the definition, along a dim that counts from 0.
Array line_of(const Function& function, const Array& x, int dim, int64_t n, double scale) {
  if (function.real_in)
    return resized(transformed(resized(with_zeros(x), dim, n), dim, function.forward, scale), dim,
                   n / 2 + 1);
  if (!function.real_out) return transformed(resized(x, dim, n), dim, function.forward, scale);
  return real_parts(
      transformed(completed(resized(x, dim, n / 2 + 1), dim, n), dim, function.forward, scale));
}

void lines(Cases& cases) {
  struct Sample {
    Shape sizes;
    int dim;
    std::optional<int64_t> n;
    const char* norm;
  };
  for (const Function& function : kFunctions)
    for (const Sample& sample : {Sample{{6}, 0, {}, "backward"}, Sample{{2, 5}, 1, 8, "ortho"},
                                 Sample{{7, 2}, 0, 4, "forward"}, Sample{{3, 5}, 1, 7, "backward"},
                                 Sample{{2, 0}, 1, 3, "backward"}, Sample{{0, 3}, 1, 5, "ortho"}}) {
      Shape sizes = sample.sizes;
      const int64_t given = sizes[sample.dim];
      const int64_t n = sample.n.value_or(function.real_out ? 2 * (given - 1) : given);
      if (!function.real_in) sizes.push_back(2);
      cases.add(
          {.op = function.name,
           .name = concat(sample.sizes, " along ", sample.dim, ", n = ", n, ", ", sample.norm),
           .inputs = {{sizes}},
           .run =
               [=](In x) {
                 const Tensor input = function.real_in ? x[0] : from_parts(x[0]);
                 return one(to_parts(
                     function.run(input, sample.n, sample.dim - sample.sizes.size(), sample.norm)));
               },
           .reference =
               [=](Arrays x) {
                 return one(line_of(function, x[0], sample.dim, n,
                                    scale_of(sample.norm, function.forward, n)));
               },
           .dtypes = {kFloat32, kFloat64},
           .tolerance = 60});
    }
  // All elements, from the half that real numbers determine.
  for (const Function& function : {kFunctions[0], kFunctions[1]})
    for (const int64_t n : {1, 2, 5, 6})
      cases.add({.op = function.name,
                 .name = concat("real, n = ", n),
                 .inputs = {{{2, n}}},
                 .run = [=](In x) { return one(to_parts(function.run(x[0], {}, -1, {}))); },
                 .reference =
                     [=](Arrays x) {
                       return one(transformed(with_zeros(x[0]), 1, function.forward,
                                              scale_of("backward", function.forward, n)));
                     },
                 .dtypes = {kFloat32, kFloat64},
                 .tolerance = 60});
  cases.add(
      {.op = "rfft",
       .name = "integers",
       .inputs = {{{2, 6}}},
       .run = [](In x) { return one(to_parts(fft::rfft(x[0]))); },
       .reference =
           [](Arrays x) { return one(resized(transformed(with_zeros(x[0]), 1, true), 1, 4)); },
       .dtypes = {kUInt8, kInt32, kInt64},
       .output_dtype = [](DType) { return kFloat32; },
       .tolerance = 60});
}

void several_dims(Cases& cases) {
  const auto both = [](const Array& x, bool forward, double scale) {
    return transformed(transformed(x, 0, forward, scale), 1, forward);
  };
  const auto add = [&](const char* op, Shape sizes, std::function<Tensor(const Tensor&)> run,
                       std::function<Array(const Array&)> formula, bool real_in) {
    if (!real_in) sizes.push_back(2);
    cases.add({.op = op,
               .name = concat(sizes),
               .inputs = {{sizes}},
               .run = [=](In x) { return one(to_parts(run(real_in ? x[0] : from_parts(x[0])))); },
               .reference = [=](Arrays x) { return one(formula(x[0])); },
               .dtypes = {kFloat32, kFloat64},
               .tolerance = 60});
  };
  add(
      "fft2", {3, 4}, [](const Tensor& x) { return fft::fft2(x); },
      [=](const Array& x) { return both(x, true, 1); }, false);
  add(
      "ifft2", {3, 4},
      [](const Tensor& x) {
        return fft::ifft2(x, Shape{2, 5});
      },
      [=](const Array& x) { return both(resized(resized(x, 0, 2), 1, 5), false, 0.1); }, false);
  add(
      "fftn", {3, 4},
      [](const Tensor& x) {
        return fft::fftn(x, Shape{-1, 2}, {}, "ortho");
      },
      [=](const Array& x) { return both(resized(x, 1, 2), true, 1 / std::sqrt(6.)); }, false);
  add(
      "ifftn", {3, 4},
      [](const Tensor& x) {
        return fft::ifftn(x, {}, Dims{1, 0}, "forward");
      },
      [=](const Array& x) { return both(x, false, 1); }, false);
  add(
      "rfft2", {3, 5}, [](const Tensor& x) { return fft::rfft2(x); },
      [=](const Array& x) { return resized(both(with_zeros(x), true, 1), 1, 3); }, true);
  add(
      "rfftn", {3, 4}, [](const Tensor& x) { return fft::rfftn(x, {}, {}, "forward"); },
      [=](const Array& x) { return resized(both(with_zeros(x), true, 1 / 12.), 1, 3); }, true);
  add(
      "ihfft2", {3, 4}, [](const Tensor& x) { return fft::ihfft2(x); },
      [=](const Array& x) { return resized(both(with_zeros(x), false, 1 / 12.), 1, 3); }, true);
  // The first dim is transformed before the spectrum of the second is completed.
  const auto to_real = [](const Array& x, bool forward, int64_t n, double scale) {
    return real_parts(transformed(completed(transformed(x, 0, forward, scale), 1, n), 1, forward));
  };
  add(
      "irfft2", {3, 4}, [](const Tensor& x) { return fft::irfft2(x); },
      [=](const Array& x) { return to_real(x, false, 6, 1 / 18.); }, false);
  add(
      "irfftn", {3, 4},
      [](const Tensor& x) {
        return fft::irfftn(x, Shape{3, 7});
      },
      [=](const Array& x) { return to_real(x, false, 7, 1 / 21.); }, false);
  add(
      "hfft2", {3, 4}, [](const Tensor& x) { return fft::hfft2(x); },
      [=](const Array& x) { return to_real(x, true, 6, 1); }, false);
  add(
      "hfftn", {3, 4}, [](const Tensor& x) { return fft::hfftn(x, {}, {}, "ortho"); },
      [=](const Array& x) { return to_real(x, true, 6, 1 / std::sqrt(18.)); }, false);
}

void frequencies(Cases& cases) {
  const auto made = [&](const char* op, std::string name, std::function<Tensor()> run,
                        std::vector<double> values) {
    cases.add({.op = op,
               .name = std::move(name),
               .run = [=](In) { return one(run()); },
               .reference =
                   [=](Arrays) {
                     Array out(Shape{static_cast<int64_t>(values.size())});
                     out.values = values;
                     return one(out);
                   },
               .dtypes = {kFloat32, kFloat64},
               .opt_out = {{Mode::grad, "has no inputs"}}});
  };
  const auto options = [] { return TensorOptions{.dtype = dtype(), .device = device()}; };
  made("fftfreq", "even", [=] { return fft::fftfreq(4, 0.5, options()); }, {0, 0.5, -1, -0.5});
  made("fftfreq", "odd", [=] { return fft::fftfreq(5, 2, options()); }, {0, 0.1, 0.2, -0.2, -0.1});
  made("rfftfreq", "even", [=] { return fft::rfftfreq(4, 0.5, options()); }, {0, 0.5, 1});
  made("rfftfreq", "odd", [=] { return fft::rfftfreq(5, 1, options()); }, {0, 0.2, 0.4});
  const auto moved = [&](const char* op, auto run, int64_t by) {
    cases.add({.op = op,
               .name = "one dim",
               .inputs = {{{2, 5}}},
               .run = [=](In x) { return one(run(x[0], Dims{-1})); },
               .reference =
                   [=](Arrays x) {
                     Array out = x[0];
                     for (int64_t i = 0; i < 10; ++i) out[i / 5 * 5 + (i % 5 + by) % 5] = x[0][i];
                     return one(out);
                   }});
    cases.add({.op = op,
               .name = "all dims",
               .inputs = {{{3, 2}}},
               .run = [=](In x) { return one(run(x[0], {})); },
               .reference =
                   [=](Arrays x) {
                     Array out = x[0];
                     for (int64_t i = 0; i < 6; ++i)
                       out[(i / 2 + by - 1) % 3 * 2 + (i + 1) % 2] = x[0][i];
                     return one(out);
                   }});
  };
  moved(
      "fftshift", [](const Tensor& x, const std::optional<Dims>& d) { return fft::fftshift(x, d); },
      2);
  moved(
      "ifftshift",
      [](const Tensor& x, const std::optional<Dims>& d) { return fft::ifftshift(x, d); }, 3);
}

void mistakes(Cases& cases) {
  const auto x = [](DType dtype = kFloat32) {
    return zeros({2, 3}, {.dtype = dtype, .device = device()});
  };
  cases.error("fft", "half", "fft: unsupported dtype float16", [=] { fft::fft(x(kFloat16)); });
  cases.error("rfft", "bfloat16", "rfft: unsupported dtype bfloat16",
              [=] { fft::rfft(x(kBFloat16)); });
  cases.error("rfft", "complex", "rfft: expects a real input tensor, but got complex64",
              [=] { fft::rfft(x(kComplex64)); });
  cases.error("fft", "n = 0", "fft: invalid number of data points (0) specified",
              [=] { fft::fft(x(), 0); });
  cases.error("irfft", "one element", "irfft: invalid number of data points (0) specified",
              [=] { fft::irfft(zeros({1}, {.device = device()})); });
  cases.error("fft", "norm", "norm must be \"backward\", \"forward\" or \"ortho\", got \"half\"",
              [=] { fft::fft(x(), {}, -1, "half"); });
  cases.error("fft", "dim", "fft", [=] { fft::fft(x(), {}, 2); });
  cases.error("fft", "0-dim", "expected a tensor that has dims",
              [] { fft::fft(zeros({}, {.device = device()})); });
  cases.error("fftn", "s and dim", "dim and s must have the same length", [=] {
    fft::fftn(x(), Shape{2, 2}, Dims{0});
  });
  cases.error("fftn", "too many sizes", "got s with 3 values", [=] {
    fft::fftn(x(), Shape{2, 2, 2});
  });
  cases.error("fftn", "a dim twice", "fftn", [=] { fft::fftn(x(), {}, Dims{0, 0}); });
  cases.error("rfftn", "no dims", "must transform at least one axis",
              [=] { fft::rfftn(x(), {}, Dims{}); });
  cases.error("fftfreq", "integers", "requires a floating point or complex dtype, but got int64",
              [] { fft::fftfreq(4, 1, {.dtype = kInt64}); });
}

}  // namespace

void fft_cases(Cases& cases) {
  lines(cases);
  several_dims(cases);
  frequencies(cases);
  mistakes(cases);
}

}  // namespace tensora::suite
