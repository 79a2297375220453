// How fast the GPU reads quantized weights and the paged cache, in the shapes of language models.
//
//   tensora-bench-cuda_quant [step|rows|batch|many|attention|prompts ...]     default: all
//
// Launches are recorded in a graph, so that what a launch costs the host does not count. A product
// walks through so many copies of its weight that none is found in the caches. GB/s counts the
// weight's bytes alone; the share is that of a copy between two arrays, measured first.

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>

#include "tensora/backend/cuda/runtime/check.h"
#include "tensora/backend/cuda/runtime/graph.h"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/backend/cuda/runtime/stream.h"
#include "tensora/ops/paged/paged_attention.h"
#include "tensora/ops/paged/paged_self_attention.h"
#include "tensora/ops/quant/quant_embedding.h"
#include "tensora/ops/quant/quant_gated.h"
#include "tensora/ops/quant/quant_linear.h"
#include "tensora/ops/quant/quantize.h"
#include "tensora/tensora.h"

namespace tensora {
namespace {

const Device kCuda = Device(DeviceType::cuda);

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Microseconds of one of `count` calls of `body(i)`, recorded and replayed.
double microseconds(int count, const std::function<void(int)>& body) {
  const auto all = [&] {
    for (int i = 0; i < count; ++i) body(i);
  };
  body(0);
  cuda::Graph graph;
  graph.capture(all);
  graph.replay();
  std::vector<double> times;
  for (int run = 0; run < 9; ++run) {
    cuda::Event start(kCuda, cuda::Event::Timing::on), end(kCuda, cuda::Event::Timing::on);
    start.record();
    graph.replay();
    end.record();
    end.synchronize();
    times.push_back(static_cast<double>(end.milliseconds_since(start)) * 1000 / count);
  }
  return median_of(times);
}

double copy_bandwidth() {
  const int64_t count = int64_t{1} << 29;
  const Tensor from = zeros({count}, {.device = kCuda});
  return 8.0 * static_cast<double>(count) /
         microseconds(4, [&](int) { static_cast<void>(from + 1); }) * 1e-3;
}

// Bytes that are valid in every format: small scales, any codes.
__global__ void fill_pattern(unsigned char* to, int64_t bytes) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < bytes) to[i] = static_cast<unsigned char>((i * 2654435761u >> 13) & 0x37);
}

Tensor make_weight(int64_t rows, int64_t k, DType dtype) {
  const Tensor weight = empty({rows, k}, {.dtype = dtype, .device = kCuda});
  const int64_t bytes = bytes_of(dtype, rows * k);
  const auto stream = static_cast<cudaStream_t>(cuda::Stream::current(kCuda).handle());
  fill_pattern<<<static_cast<unsigned>((bytes + 255) / 256), 256, 0, stream>>>(
      static_cast<unsigned char*>(weight.data_ptr()), bytes);
  cuda::check_cuda(cudaGetLastError(), "fill_pattern");
  return weight;
}

struct Shape2 {
  const char* name;
  int64_t rows, k;
  bool gated = false;
};

double time_product(const Shape2& shape, DType dtype, int64_t batch, int64_t least_bytes) {
  const int64_t bytes = bytes_of(dtype, shape.rows * shape.k) * (shape.gated ? 2 : 1);
  const int count = static_cast<int>(std::clamp<int64_t>(least_bytes / bytes, 4, 64));
  std::vector<Tensor> weights;
  for (int i = 0; i < count * (shape.gated ? 2 : 1); ++i)
    weights.push_back(make_weight(shape.rows, shape.k, dtype));
  const DType activations = dtype == kFloat16 ? kFloat16 : dtype == kFloat32 ? kFloat32 : kBFloat16;
  const Tensor x = randn({batch, shape.k}, {.device = kCuda}).to(activations);
  const bool scaled = dtype == kInt8 || dtype == kFloat8E4M3;
  const Tensor scale = ones({shape.rows}, {.device = kCuda});
  return microseconds(count, [&](int i) {
    const auto at = static_cast<size_t>(i);
    if (shape.gated) {
      quant_gated(x, weights[2 * at], weights[2 * at + 1],
                  {.gate_scale = scaled ? scale : Tensor(), .up_scale = scaled ? scale : Tensor()});
    } else {
      QuantLinearOptions options{.dtype = kFloat32};
      if (scaled) options.scales = {scale};
      quant_linear(x, {&weights[at], 1}, options);
    }
  });
}

const Shape2 kShapes[] = {
    {"1b qkv", 3072, 2048},           {"1b out", 2048, 2048},
    {"1b gate+up", 8192, 2048, true}, {"1b down", 2048, 8192},
    {"1b head", 128256, 2048},        {"8b qkv", 6144, 4096},
    {"8b out", 4096, 4096},           {"8b gate+up", 14336, 4096, true},
    {"8b down", 4096, 14336},         {"8b head", 128256, 4096},
};

void few_rows(double copy) {
  const DType dtypes[] = {kQ4_K,   kQ6_K,   kQ8_0,  kFloat16, kBFloat16, kQ4_0,
                          kQ4_1,   kQ5_0,   kQ5_1,  kQ2_K,    kQ3_K,     kQ5_K,
                          kIQ4_NL, kIQ4_XS, kMXFP4, kNF4,     kInt8,     kFloat8E4M3};
  std::printf("\none row of activations: us, and the share of a copy's %.0f GB/s\n%-14s", copy, "");
  for (const Shape2& shape : kShapes) std::printf(" %13s", shape.name);
  std::printf("\n");
  for (DType dtype : dtypes) {
    std::printf("%-14s", std::string(name(dtype)).c_str());
    for (const Shape2& shape : kShapes) {
      const double us = time_product(shape, dtype, 1, int64_t{600} << 20);
      const double bytes =
          static_cast<double>(bytes_of(dtype, shape.rows * shape.k)) * (shape.gated ? 2 : 1);
      std::printf(" %7.2f %4.0f%%", us, bytes / us * 1e-3 / copy * 100);
      std::fflush(stdout);
    }
    std::printf("\n");
  }
}

/// Batches of sequences: no type may take longer than bfloat16 for the same rows.
void batches() {
  const int64_t rows[] = {1, 2, 4, 8, 16, 32, 64, 128, 256};
  const DType dtypes[] = {kBFloat16, kQ4_K, kQ6_K, kQ8_0, kQ5_K,   kQ4_0,   kMXFP4, kQ4_1,
                          kQ5_0,     kQ5_1, kQ2_K, kQ3_K, kIQ4_NL, kIQ4_XS, kNF4};
  for (int i : {5, 6, 7, 8, 9}) {
    const Shape2& shape = kShapes[i];
    std::printf("\n%-14s us by rows of activations\n%-14s", shape.name, "");
    for (int64_t batch : rows) std::printf(" %8ld", long(batch));
    std::printf("\n");
    for (DType dtype : dtypes) {
      std::printf("%-14s", std::string(name(dtype)).c_str());
      for (int64_t batch : rows)
        std::printf(" %8.1f", time_product(shape, dtype, batch, int64_t{300} << 20));
      std::printf("\n");
      std::fflush(stdout);
    }
  }
}

void many_rows() {
  std::printf("\nmany rows, TFLOP/s\n%-14s %12s %12s %12s\n", "", "8b out", "8b gate+up",
              "8b down");
  for (DType dtype : {kQ4_K, kQ6_K, kQ8_0, kFloat16, kBFloat16})
    for (int64_t rows : {512, 2048}) {
      std::printf("%-8s %5ld", std::string(name(dtype)).c_str(), long(rows));
      for (int i : {6, 7, 8}) {
        const Shape2& shape = kShapes[i];
        const double us = time_product(shape, dtype, rows, 0);
        std::printf(" %12.1f", 2.0 * double(rows) * double(shape.rows) * double(shape.k) *
                                   (shape.gated ? 2 : 1) / us * 1e-6);
      }
      std::printf("\n");
    }
}

void attention(double copy) {
  std::printf("\nattention over the paged cache, 32 heads, 8 heads of keys, bfloat16\n");
  std::printf("%10s %10s %6s %6s %10s %8s\n", "sequences", "length", "size", "query", "us", "");
  struct Case {
    int64_t sequences, length, size, queries;
  };
  const Case cases[] = {{1, 128, 64, 1},      {1, 512, 64, 1},     {1, 512, 128, 1},
                        {1, 8192, 128, 1},    {8, 2048, 128, 1},   {32, 512, 128, 1},
                        {32, 2048, 128, 1},   {64, 8192, 128, 1},  {1, 512, 128, 512},
                        {1, 2048, 128, 2048}, {4, 2048, 128, 512}, {1, 32768, 128, 1}};
  for (const Case& c : cases) {
    const int64_t block = 16, per = (c.length + block - 1) / block;
    const TensorOptions options{.dtype = kBFloat16, .device = kCuda};
    const Tensor keys = randn({c.sequences * per, 8, block, c.size}, options);
    const Tensor values = randn({c.sequences * per, 8, block, c.size}, options);
    const Tensor q = randn({c.sequences * c.queries, 32, c.size}, options);
    const Tensor starts =
        (arange(c.sequences + 1, {.dtype = kInt64}) * c.queries).to(kInt32).to(kCuda);
    const Tensor lengths = full({c.sequences}, double(c.length), {.dtype = kInt32}).to(kCuda);
    const Tensor table = arange(c.sequences * per, {.dtype = kInt64})
                             .to(kInt32)
                             .reshape({c.sequences, per})
                             .to(kCuda);
    const double us = microseconds(10, [&](int) {
      paged_attention(q, keys, values, starts, lengths, table,
                      {.max_query = c.queries, .max_length = c.length});
    });
    std::printf("%10ld %10ld %6ld %6ld %10.2f", long(c.sequences), long(c.length), long(c.size),
                long(c.queries), us);
    if (c.queries == 1) {
      const double bytes = double(c.sequences) * double(c.length) * 8 * double(c.size) * 4;
      std::printf(" %6.0f%% of a copy's bandwidth\n", bytes / us * 1e-3 / copy * 100);
    } else {
      const double seen = double(c.queries) * (double(c.length) - double(c.queries) / 2);
      std::printf(" %6.1f TFLOP/s\n",
                  4.0 * double(c.sequences) * 32 * seen * double(c.size) / us * 1e-6);
    }
  }
}

// ---- prompts -----------------------------------------------------------------------------------

/// A cache in shuffled blocks of 32, and the queries of the last `queries` positions.
struct Prompt {
  Tensor query, keys, values, starts, lengths, table;
  int64_t queries, length;

  Prompt(int64_t count, int64_t positions, int64_t size, DType cache)
      : queries(count), length(positions) {
    const int64_t blocks = (length + 31) / 32;
    const auto numbers = [&] {
      const Tensor x = randn({blocks, 8, 32, size}, {.device = kCuda});
      return is_quantized(cache) ? quantize(x, cache) : x.to(cache);
    };
    keys = numbers();
    values = numbers();
    query = randn({queries, 32, size}, {.dtype = kBFloat16, .device = kCuda});
    starts = (arange(2, {.dtype = kInt64}) * queries).to(kInt32).to(kCuda);
    lengths = full({1}, double(length), {.dtype = kInt32}).to(kCuda);
    table = randperm(blocks).to(kInt32).reshape({1, blocks}).to(kCuda);
  }
  Tensor attend(double softcap = 0, int64_t window = 0) const {
    return paged_attention(
        query, keys, values, starts, lengths, table,
        {.softcap = softcap, .window = window, .max_query = queries, .max_length = length});
  }
};

/// A cap far above all scores keeps the kernel that every device has: beside it, the one for
/// prompts shows from how many queries on it is worth its tiles, and whether it is right.
bool prompts() {
  std::printf("\nprompts over the paged cache, 32 heads, 8 heads of keys: TFLOP/s\n");
  std::printf("%8s %8s %6s %-16s %9s %9s %9s %10s\n", "queries", "length", "size", "cache", "us",
              "prompts", "all", "difference");
  bool all_right = true;
  const auto run = [&](int64_t queries, int64_t length, int64_t size, DType cache,
                       int64_t window = 0) {
    const Prompt prompt(queries, length, size, cache);
    const double cap = 1e4;
    const Tensor wanted = prompt.attend(cap, window).to(kFloat32);
    const double difference =
        (prompt.attend(0, window).to(kFloat32) - wanted).abs().max().item<double>();
    const bool right = difference < 0.03;
    all_right = all_right && right;
    const double us = microseconds(4, [&](int) { prompt.attend(0, window); });
    const double other = microseconds(4, [&](int) { prompt.attend(cap, window); });
    const double seen = window > 0 ? double(queries) * double(window)  // a little less
                                   : double(queries) * (double(length) - double(queries - 1) / 2);
    const double flops = 4.0 * 32 * seen * double(size);
    std::printf("%8ld %8ld %6ld %-16s %9.1f %9.1f %9.1f %10.4f%s\n", long(queries), long(length),
                long(size), std::string(name(cache)).c_str(), us, flops / us * 1e-6,
                flops / other * 1e-6, difference, right ? "" : "  WRONG");
    std::fflush(stdout);
  };
  for (int64_t size : {128, 64})
    for (int64_t tokens : {512, 2048, 8192}) run(tokens, tokens, size, kBFloat16);
  run(512, 8192, 128, kBFloat16);
  run(2048, 16384 + 77, 128, kBFloat16);
  run(4096, 8192 + 5, 128, kBFloat16, 1000);  // a window
  for (DType cache : {kQ8_0, kFloat8E4M3, kFloat16}) run(2048, 2048, 128, cache);
  for (int64_t queries : {16, 32, 64, 96, 128, 256})
    for (int64_t length : {512, 4096}) run(queries, length, 128, kBFloat16);
  return all_right;
}

// ---- all the kernels of one token --------------------------------------------------------------

struct Dims {
  const char* name;
  int64_t layers, width, heads, groups, size, inner, vocabulary;
};
const Dims kDims[] = {{"llama3-1b", 16, 2048, 32, 8, 64, 8192, 128256},
                      {"llama3-8b", 32, 4096, 32, 8, 128, 14336, 128256}};

struct Layer {
  Tensor norm1, norm2, qkv[3], out, gate, up, down, keys, values;
};

struct Step {
  Dims dims;
  std::vector<Layer> layers;
  Tensor head, norm, embedding, token, position, slot, starts, lengths, table, angles;

  Step(const Dims& d, DType dtype, DType head_dtype, int64_t context) : dims(d) {
    const DType activations = dtype == kFloat16 ? kFloat16 : kBFloat16;
    const TensorOptions on_gpu{.device = kCuda};
    const int64_t blocks = (context + 15) / 16;
    for (int64_t i = 0; i < d.layers; ++i) {
      Layer layer;
      layer.norm1 = ones({d.width}, on_gpu);
      layer.norm2 = ones({d.width}, on_gpu);
      layer.qkv[0] = make_weight(d.heads * d.size, d.width, dtype);
      layer.qkv[1] = make_weight(d.groups * d.size, d.width, dtype);
      layer.qkv[2] = make_weight(d.groups * d.size, d.width, dtype);
      layer.out = make_weight(d.width, d.heads * d.size, dtype);
      layer.gate = make_weight(d.inner, d.width, dtype);
      layer.up = make_weight(d.inner, d.width, dtype);
      layer.down = make_weight(d.width, d.inner, dtype);
      layer.keys = zeros({blocks, d.groups, 16, d.size}, {.dtype = activations, .device = kCuda});
      layer.values = zeros({blocks, d.groups, 16, d.size}, {.dtype = activations, .device = kCuda});
      layers.push_back(layer);
    }
    head = make_weight(d.vocabulary, d.width, head_dtype);
    embedding = head;
    norm = ones({d.width}, on_gpu);
    token = zeros({1}, {.dtype = kInt64, .device = kCuda});
    position = full({1}, double(context - 1), {.dtype = kInt64, .device = kCuda});
    slot = full({1}, double(context - 1), {.dtype = kInt64, .device = kCuda});
    starts = arange(2, {.dtype = kInt64}).to(kInt32).to(kCuda);
    lengths = full({1}, double(context), {.dtype = kInt32}).to(kCuda);
    table = arange(blocks, {.dtype = kInt64}).to(kInt32).reshape({1, blocks}).to(kCuda);
    angles = ones({context, d.size}, on_gpu);
  }

  Tensor run(DType activations) const {
    Tensor stream = quant_embedding(token, embedding);
    for (const Layer& layer : layers) {
      const Tensor qkv =
          quant_linear(stream, layer.qkv, {.dtype = activations, .norm = layer.norm1});
      const Tensor attended = paged_self_attention(
          qkv, position, slot, layer.keys, layer.values, angles, starts, lengths, table,
          {.store = {.heads = dims.heads, .kv_heads = dims.groups},
           .attention = {.max_query = 1, .max_length = table.size(1) * 16}});
      stream = quant_linear(attended.reshape({1, dims.heads * dims.size}), {&layer.out, 1},
                            {.residual = stream, .dtype = kFloat32});
      const Tensor inner =
          quant_gated(stream, layer.gate, layer.up, {.dtype = activations, .norm = layer.norm2});
      stream = quant_linear(inner, {&layer.down, 1}, {.residual = stream, .dtype = kFloat32});
    }
    return quant_linear(stream, {&head, 1}, {.dtype = kFloat32, .norm = norm});
  }
};

void steps() {
  std::printf("\nall kernels of one token, context 512, one sequence: us, tokens per second\n");
  std::printf("%-10s %-10s %22s %22s\n", "", "", "one after the other", "beginning early");
  struct Types {
    DType dtype, head;
  };
  for (const Dims& dims : kDims)
    for (const Types& types : {Types{kFloat16, kFloat16}, Types{kBFloat16, kBFloat16},
                               Types{kQ8_0, kQ8_0}, Types{kQ4_K, kQ6_K}}) {
      const Step step(dims, types.dtype, types.head, 512);
      const DType activations = types.dtype == kFloat16 ? kFloat16 : kBFloat16;
      std::printf("%-10s %-10s", dims.name, std::string(name(types.dtype)).c_str());
      for (bool early : {false, true}) {
        const cuda::EarlyLaunches scope(early);
        const double us = microseconds(2, [&](int) { step.run(activations); });
        std::printf(" %11.1f %10.1f", us, 1e6 / us);
        std::fflush(stdout);
      }
      std::printf("\n");
    }
}

}  // namespace
}  // namespace tensora

int main(int argc, char** argv) {
  using namespace tensora;
  try {
    const std::string reason = unavailable_reason(DeviceType::cuda);
    if (!reason.empty()) {
      std::fprintf(stderr, "cuda_quant: %s\n", reason.c_str());
      return 77;
    }
    const no_grad silent;
    const auto wanted = [&](const char* what) {
      for (int i = 1; i < argc; ++i)
        if (std::strcmp(argv[i], what) == 0) return true;
      return argc == 1;
    };
    const double copy = copy_bandwidth();
    std::printf("copy: %.0f GB/s\n", copy);
    if (wanted("step")) steps();
    if (wanted("attention")) attention(copy);
    if (wanted("prompts") && !prompts()) return 1;
    if (wanted("rows")) few_rows(copy);
    if (wanted("batch")) batches();
    if (wanted("many")) many_rows();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "cuda_quant: %s\n", error.what());
    return 1;
  }
}
