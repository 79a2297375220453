// Products with quantized weights: one row of activations (a token that is generated) in GB/s of
// weights read, beside what plain reading reaches on the same threads; many rows (a prompt) in
// G-op/s; and attention over a paged cache. A row is reported as correct only if its results agree
// with the weights' own numbers.
//
//   tensora-bench-quant [--threads N] [--seconds S] [--megabytes M] [--filter TEXT]
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>

#include "bench/timing.h"
#include "tensora/base/thread_pool.h"
#include "tensora/tensora.h"

using namespace tensora;

namespace {

struct Settings {
  double seconds = 0.5;
  int64_t megabytes = 256;  // of a weight: more than the caches hold
  std::string filter;
} settings;

constexpr int64_t kColumns = 2048, kSampleRows = 32;
bool all_correct = true;

void report(const std::string& name, double value, const char* unit, bool correct) {
  all_correct &= correct;
  bench::report(name.c_str(), value, unit, correct);
}
bool skips(const std::string& name) { return name.find(settings.filter) == std::string::npos; }

Tensor zeros_of(const Shape& sizes, DType dtype) {
  const Tensor made = empty(sizes, {.dtype = dtype});
  std::memset(made.data_ptr(), 0, static_cast<size_t>(bytes_of(dtype, made.numel())));
  return made;
}

struct Weight {
  Tensor data, scale;
  Tensor numbers;  // float32, of the first rows; all others repeat them
  int64_t rows, row_bytes;

  Weight(DType dtype, int64_t row_count)
      : rows(row_count / kSampleRows * kSampleRows), row_bytes(bytes_of(dtype, kColumns)) {
    manual_seed(1);
    const Tensor plain = randn({kSampleRows, kColumns}) * 0.05;
    Tensor sample;
    if (is_quantized(dtype)) {
      sample = quantize(plain, dtype);
      numbers = dequantize(sample);
    } else if (dtype == kInt8 || dtype == kFloat8E4M3) {
      sample = (plain * 400).to(dtype);
      scale = full({rows}, 1.0 / 400);
      numbers = sample.to(kFloat32) / 400;
    } else {
      sample = plain.to(dtype);
      numbers = sample.to(kFloat32);
    }
    data = empty({rows, kColumns}, {.dtype = dtype});
    const auto bytes = static_cast<size_t>(row_bytes * kSampleRows);
    for (int64_t r = 0; r < rows; r += kSampleRows)
      std::memcpy(static_cast<char*>(data.data_ptr()) + r * row_bytes, sample.data_ptr(), bytes);
  }
  double bytes() const { return static_cast<double>(rows * row_bytes); }
};

// Whether the first and the last rows' products are what the numbers give, up to the rounding of
// the activations to 8 bits: a number of the result is a sum over 2048 products of normal numbers.
bool agrees(const Tensor& y, const Tensor& x, const Weight& weight) {
  const Tensor expected = matmul(x, weight.numbers.t());
  const auto distance = [&](const Tensor& part) {
    return max(abs(part - expected)).item<double>();
  };
  const double allowed = 0.05 * max(abs(expected)).item<double>();
  return distance(narrow(y, -1, 0, kSampleRows)) < allowed &&
         distance(narrow(y, -1, y.size(-1) - kSampleRows, kSampleRows)) < allowed;
}

// What reading memory reaches, with all threads and nothing else to do.
double read_bandwidth() {
  const int64_t bytes = settings.megabytes << 20;
  const Tensor memory = zeros({bytes / 8}, kInt64);
  const auto* words = memory.data_ptr<int64_t>();
  int64_t found = 0;
  const bench::Timing timing = bench::measure(
      [&] {
        std::atomic<int64_t> total = 0;
        parallel_for(bytes / 8, 1 << 14, [&](int64_t begin, int64_t end) {
          int64_t any = 0;
          for (int64_t i = begin; i < end; ++i) any |= words[i];
          total.fetch_or(any, std::memory_order_relaxed);
        });
        found |= total.load();
      },
      settings.seconds);
  const double rate = static_cast<double>(bytes) / timing.best_s * 1e-9;
  report("read", rate, "GB/s", found == 0);
  return rate;
}

void bench_vector(DType dtype, double reading) {
  const std::string label = "vector " + std::string(name(dtype));
  if (skips(label)) return;
  const Weight weight(dtype, (settings.megabytes << 20) / bytes_of(dtype, kColumns));
  const Tensor x = randn({1, kColumns});
  const Tensor weights[] = {weight.data};
  QuantLinearOptions options;
  options.scales.push_back(weight.scale);
  Tensor y;
  const bench::Timing timing =
      bench::measure([&] { y = quant_linear(x, weights, options); }, settings.seconds);
  const double rate = weight.bytes() / timing.best_s * 1e-9;
  const bool correct = agrees(y, x, weight);
  report(label, rate, "GB/s", correct);
  report(label + " of reading", rate / reading, "share", correct);
}

void bench_matrix(DType dtype, int64_t rows) {
  const std::string label = "matrix " + std::to_string(rows) + " " + std::string(name(dtype));
  if (skips(label)) return;
  const Weight weight(dtype, 2048);
  const Tensor x = randn({rows, kColumns});
  const Tensor weights[] = {weight.data};
  QuantLinearOptions options;
  options.scales.push_back(weight.scale);
  Tensor y;
  const bench::Timing timing =
      bench::measure([&] { y = quant_linear(x, weights, options); }, settings.seconds);
  const auto operations = static_cast<double>(2 * rows * weight.rows * kColumns);
  report(label, operations / timing.best_s * 1e-9, "Gop/s", agrees(y, x, weight));
}

// One token of one sequence: GB/s of keys and values read.
void bench_attention(DType cache, int64_t length) {
  const std::string label = "attention " + std::to_string(length) + " " + std::string(name(cache));
  if (skips(label)) return;
  constexpr int64_t kHeads = 32, kGroups = 8, kSize = 64, kBlock = 32;
  const int64_t blocks = (length + kBlock - 1) / kBlock;
  const Shape sizes{blocks, kGroups, kBlock, kSize};
  const Tensor keys = zeros_of(sizes, cache), values = zeros_of(sizes, cache);
  const Tensor q = randn({1, kHeads, kSize}), starts = arange(2).to(kInt32);
  const Tensor lengths = full({1}, length, kInt32);
  const Tensor table = reshape(arange(blocks).to(kInt32), {1, blocks});
  Tensor out;
  const bench::Timing timing = bench::measure(
      [&] { out = paged_attention(q, keys, values, starts, lengths, table); }, settings.seconds);
  const auto bytes = static_cast<double>(2 * bytes_of(cache, length * kGroups * kSize));
  report(label, bytes / timing.best_s * 1e-9, "GB/s", max(abs(out)).item<double>() == 0);
}

}  // namespace

int main(int count, char** arguments) {
  for (int i = 1; i + 1 < count; i += 2) {
    const std::string option = arguments[i];
    if (option == "--threads") set_num_threads(std::atoi(arguments[i + 1]));
    if (option == "--seconds") settings.seconds = std::atof(arguments[i + 1]);
    if (option == "--megabytes") settings.megabytes = std::atoll(arguments[i + 1]);
    if (option == "--filter") settings.filter = arguments[i + 1];
  }
  const double reading = read_bandwidth();
  std::vector<DType> dtypes = {kFloat32, kFloat16, kBFloat16, kInt8, kFloat8E4M3};
  for (const DTypeInfo& info : dtype_info_table)
    if (is_quantized(info.dtype)) dtypes.push_back(info.dtype);
  for (DType dtype : dtypes) bench_vector(dtype, reading);
  for (int64_t rows : {8, 128, 512})
    for (DType dtype : dtypes) bench_matrix(dtype, rows);
  for (int64_t length : {512, 8192})
    for (DType cache : {kFloat32, kFloat16, kBFloat16, kFloat8E4M3, kQ8_0})
      bench_attention(cache, length);
  return all_correct ? 0 : 1;
}
