// Our side of `./dev bench ops`: the op families one by one, at sizes where the memory or the
// arithmetic decides and not the call. bench/ops.py runs PyTorch's rows of the same names beside
// it.
//
// The inputs follow from a formula that both sides evaluate in double precision, so that the peer's
// answer is the check: each row prints a fingerprint of its result, and bench/ops.py compares.
//
//   tensora-bench-ops [--device cpu|cuda] [--filter TEXT]     one line of JSON per row
#include <cstring>
#include <functional>

#include "bench/ops.h"

namespace tensora::bench_ops {
namespace {

void pointwise(DType dtype, const std::string& type) {
  if (!any_wanted("pointwise")) return;
  const Tensor x = values({4096, 4096}, dtype), y = values({4096, 4096}, dtype, 0.3247179572447460);
  const Tensor line = values({4096}, dtype), column = values({4096, 1}, dtype);
  const auto add_row = [&](const char* name, const std::function<Tensor()>& body) {
    row("pointwise." + std::string(name) + "." + type, body);
  };
  add_row("add", [&] { return x + y; });
  add_row("add_row", [&] { return x + line; });
  add_row("add_column", [&] { return x + column; });
  add_row("add_number", [&] { return x + 2.0; });
  add_row("mul_", [&] { return mul_(x, 1.0); });
  add_row("relu", [&] { return relu(x); });
  add_row("exp", [&] { return exp(x); });
  add_row("sigmoid", [&] { return sigmoid(x); });
  add_row("tanh", [&] { return tanh(x); });
  add_row("gelu", [&] { return gelu(x); });
  add_row("silu", [&] { return silu(x); });
  add_row("sin", [&] { return sin(x); });
  add_row("erf", [&] { return erf(x); });
  add_row("pow", [&] { return pow(x, 3.0); });
  add_row("clamp", [&] { return clamp(x, -1.0, 1.0); });
  add_row("where", [&] { return where(x > 0.0, x, y); });
  add_row("cast", [&] { return x.to(dtype == kFloat32 ? kBFloat16 : kFloat32); });
  add_row("transposed_copy", [&] { return x.t().contiguous(); });
}

void reduce(DType dtype, const std::string& type) {
  if (!any_wanted("reduce")) return;
  const Tensor x = values({8192, 4096}, dtype);
  const auto add_row = [&](const char* name, const std::function<Tensor()>& body) {
    row("reduce." + std::string(name) + "." + type, body);
  };
  add_row("sum_all", [&] { return sum(x); });
  add_row("sum_rows", [&] { return sum(x, {1}); });
  add_row("sum_cols", [&] { return sum(x, {0}); });
  add_row("mean_rows", [&] { return mean(x, {1}); });
  add_row("var_rows", [&] { return var(x, {1}); });
  add_row("var_cols", [&] { return var(x, {0}); });
  add_row("amax_all", [&] { return amax(x); });
  add_row("amax_rows", [&] { return amax(x, {1}); });
  add_row("max_rows", [&] { return std::get<0>(max(x, 1)); });
  add_row("argmax_rows", [&] { return argmax(x, 1); });
  add_row("logsumexp_rows", [&] { return logsumexp(x, {1}); });
  add_row("norm_rows", [&] { return norm(x, 2.0, {1}); });
  add_row("prod_rows", [&] { return prod(x, 1); });
  add_row("any_rows", [&] { return any(x > 100.0, {1}); });
  add_row("cumsum_rows", [&] { return cumsum(x, 1); });
  add_row("cumsum_cols", [&] { return cumsum(x, 0); });
}

void index(DType dtype, const std::string& type) {
  if (!any_wanted("index")) return;
  const Tensor table = values({32768, 1024}, dtype);
  const Tensor rows = indices({16384}, 32768);
  const Tensor source = values({16384, 1024}, dtype);
  const Tensor places = indices({4096, 4096}, 4096), square = values({4096, 4096}, dtype);
  const Tensor mask = square > 1.0;
  const auto add_row = [&](const char* name, const std::function<Tensor()>& body) {
    row("index." + std::string(name) + "." + type, body);
  };
  add_row("index_select", [&] { return index_select(table, 0, rows); });
  add_row("gather", [&] { return gather(square, 1, places); });
  add_row("scatter", [&] { return scatter(square, 1, places, 2.0); });
  add_row("scatter_add", [&] { return scatter_add(zeros_like(square), 1, places, square); });
  add_row("index_add", [&] { return index_add(table, 0, rows, source); });
  add_row("masked_fill", [&] { return masked_fill(square, mask, 0.0); });
  add_row("masked_select", [&] { return masked_select(square, mask); });
  add_row("nonzero", [&] { return nonzero(mask); });
  add_row("cat_rows", [&] { return cat({square, square}, 0); });
  add_row("cat_cols", [&] { return cat({square, square}, 1); });
  add_row("flip", [&] { return flip(square, {1}); });
  add_row("roll", [&] { return roll(square, 17, 1); });
  add_row("tril", [&] { return tril(square); });
}

void matrix(DType dtype, const std::string& type) {
  if (!any_wanted("matrix")) return;
  const auto product = [&](int64_t m, int64_t k, int64_t n, bool transposed) {
    const std::string name = "matrix." + std::to_string(m) + "x" + std::to_string(k) + "x" +
                             std::to_string(n) + (transposed ? "t." : ".") + type;
    if (name.find(wanted) == std::string::npos) return;
    const Tensor a = values({m, k}, dtype);
    const Tensor b = transposed ? values({n, k}, dtype).t() : values({k, n}, dtype);
    row(name, [&] { return matmul(a, b); });
  };
  product(64, 64, 64, false);
  product(256, 256, 256, false);
  product(1024, 1024, 1024, false);
  product(2048, 2048, 2048, false);
  product(256, 784, 512, true);
  product(8, 4096, 4096, true);
  product(1, 4096, 4096, true);
  product(1, 4096, 4096, false);
  product(32, 20000, 32, false);
  const Tensor q = values({32, 128, 64}, dtype), k = values({32, 64, 128}, dtype);
  row("matrix.bmm_32x128x64x128." + type, [&] { return bmm(q, k); });
}

/// Transforms of complex and real numbers: many lines, columns, two dims, a prime length, one line.
void fourier(DType dtype, const std::string& type) {
  if (!any_wanted("fourier")) return;
  const Tensor real = values({2048, 1024}, dtype);
  const Tensor lines = view_as_complex(values({2048, 1024, 2}, dtype, 0.3247179572447460));
  const Tensor half = fft::rfft(real), primes = narrow(lines, 1, 0, 1009).contiguous();
  const Tensor one = lines.reshape({-1}), images = lines.reshape({2, 1024, 1024});
  const auto add_row = [&](const char* name, const std::function<Tensor()>& body) {
    row("fourier." + std::string(name) + "." + type, body);
  };
  add_row("fft", [&] { return view_as_real(fft::fft(lines)); });
  add_row("ifft_columns", [&] { return view_as_real(fft::ifft(lines, {}, 0)); });
  add_row("fft_prime", [&] { return view_as_real(fft::fft(primes)); });
  add_row("fft_one_line", [&] { return view_as_real(fft::fft(one)); });
  add_row("fft_real", [&] { return view_as_real(fft::fft(real)); });
  add_row("rfft", [&] { return view_as_real(fft::rfft(real)); });
  add_row("irfft", [&] { return fft::irfft(half); });
  add_row("fft2", [&] { return view_as_real(fft::fft2(images)); });
}

/// Rows whose numbers the peer cannot repeat: their means are compared.
void random() {
  if (!any_wanted("random")) return;
  const TensorOptions options = {.dtype = kFloat32, .device = place};
  row("random.rand.f32", [&] { return mean(rand({4096, 4096}, options)); });
  row("random.randn.f32", [&] { return var(randn({4096, 4096}, options)); });
  row("random.bernoulli.f32", [&] { return mean(bernoulli(full({4096, 4096}, 0.25, options))); });
  row("random.randperm.i64",
      [&] { return mean(randperm(1 << 22, {.device = place}), {}, false, kFloat64); });
  const Tensor weights = values({64, 32768}, kFloat32).abs() + 0.01;
  row("random.multinomial.f32",
      [&] { return mean(multinomial(weights, 256, true), {}, false, kFloat64); });
  row("random.multinomial_without.f32",
      [&] { return mean(multinomial(weights, 256), {}, false, kFloat64); });
}

void run() {
  manual_seed(5);
  for (const auto& [dtype, type] : {std::pair{kFloat32, "f32"}, std::pair{kBFloat16, "bf16"}}) {
    pointwise(dtype, type);
    reduce(dtype, type);
    index(dtype, type);
    matrix(dtype, type);
  }
  matrix(kFloat16, "f16");
  matrix(kFloat64, "f64");
  fourier(kFloat32, "f32");
  fourier(kFloat64, "f64");
  random();
  network_rows();
}

}  // namespace
}  // namespace tensora::bench_ops

int main(int argc, char** argv) {
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--device") == 0)
      tensora::bench_ops::place = tensora::Device(argv[i + 1]);
    if (std::strcmp(argv[i], "--filter") == 0) tensora::bench_ops::wanted = argv[i + 1];
  }
  tensora::bench_ops::run();
}
