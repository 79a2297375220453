// The rows of `./dev bench ops` about neural networks. Each has a forward row and, with the suffix
// `_fb`, one that also runs the backward, whose result is the gradient of the first input. Sizes on
// a GPU are larger than its caches; on the CPU they are a fraction of that.

#include <functional>

#include "bench/ops.h"

namespace tensora::bench_ops {
namespace {

bool on_gpu() { return place.type == DeviceType::cuda; }
int64_t sized(int64_t gpu, int64_t cpu) { return on_gpu() ? gpu : cpu; }

/// A large matrix that is quick to make: a column plus a row.
Tensor sheet(int64_t rows, int64_t columns, DType dtype) {
  return values({rows, 1}, dtype) + values({1, columns}, dtype, 0.3247179572447460);
}

using Inputs = std::vector<Tensor>;
using Function = std::function<Tensor(const Inputs&)>;

/// Whether one of a function's rows is.
bool is_wanted(const std::string& name, const std::string& type) {
  return (name + "_fb." + type).find(wanted) != std::string::npos;
}

/// Both rows of a function; gradients are those of `wanted_grads` inputs. `calls_before` are not
/// timed.
void both(const std::string& name, const std::string& type, const Inputs& inputs,
          size_t wanted_grads, const Function& function, int calls_before = 0) {
  for (int i = 0; i < calls_before; ++i) function(inputs);
  row(name + "." + type, [&] { return function(inputs); });
  const std::string whole = name + "_fb." + type;
  if (whole.find(wanted) == std::string::npos) return;
  Inputs leaves;
  for (const Tensor& input : inputs) leaves.push_back(input.detach());
  Inputs differentiated(leaves.begin(), leaves.begin() + static_cast<long>(wanted_grads));
  for (Tensor& leaf : differentiated) leaf.requires_grad_();
  const Tensor shape = function(inputs);
  // A gradient that varies: of a constant one softmax and its kin leave rounding errors alone.
  const Tensor gradient = values(shape.sizes(), shape.dtype(), 0.5698402909980532);
  const auto body = [&] {
    const Tensor result = function(leaves);
    return grad({result}, differentiated, {gradient})[0];
  };
  for (int i = 0; i < calls_before; ++i) body();
  row(whole, body);
}

void norms(DType dtype, const std::string& type) {
  if (!any_wanted("norm")) return;
  const int64_t columns = 4096;
  const Tensor x = sheet(sized(16384, 2048), columns, dtype);
  const Tensor weight = values({columns}, dtype), bias = values({columns}, dtype, 0.11);
  both("norm.softmax", type, {x}, 1, [](const Inputs& in) { return softmax(in[0], -1); });
  both("norm.log_softmax", type, {x}, 1, [](const Inputs& in) { return log_softmax(in[0], -1); });
  both("norm.layer_norm", type, {x, weight, bias}, 3,
       [&](const Inputs& in) { return layer_norm(in[0], {columns}, in[1], in[2]); });
  both("norm.rms_norm", type, {x, weight}, 2,
       [&](const Inputs& in) { return rms_norm(in[0], {columns}, in[1]); });
  const Tensor image = values({sized(64, 2), 256, 56, 56}, dtype);
  const Tensor scale = values({256}, dtype == kBFloat16 && on_gpu() ? kFloat32 : dtype);
  both("norm.batch_norm", type, {image, scale, scale}, 3,
       [&](const Inputs& in) { return batch_norm(in[0], {}, {}, in[1], in[2], true); });
  both("norm.group_norm", type, {image, values({256}, dtype), values({256}, dtype)}, 3,
       [&](const Inputs& in) { return group_norm(in[0], 32, in[1], in[2]); });
}

void losses(DType dtype, const std::string& type) {
  if (!any_wanted("loss")) return;
  const int64_t rows = sized(4096, 64), classes = 128256;
  const Tensor target = indices({rows}, classes);
  both("loss.cross_entropy", type, {sheet(rows, classes, dtype)}, 1,
       [&](const Inputs& in) { return cross_entropy(in[0], target); });
  const Tensor table = sheet(sized(128256, 8192), sized(2048, 512), dtype);
  const Tensor words = indices({sized(16384, 4096)}, sized(128256, 8192));
  both("loss.embedding", type, {table}, 1,
       [&](const Inputs& in) { return embedding(words, in[0]); });
}

void sorting(DType dtype, const std::string& type) {
  if (!any_wanted("sort")) return;
  const Tensor flat = values({sized(1 << 24, 1 << 20)}, dtype);
  const Tensor lines = values({sized(4096, 256), 8192}, dtype);
  const Tensor vocabulary = values({sized(64, 4), 128256}, dtype);
  row("sort.flat." + type, [&] { return std::get<0>(sort(flat)); });
  row("sort.rows." + type, [&] { return std::get<0>(sort(lines)); });
  row("sort.topk_8_of_rows." + type, [&] { return std::get<0>(topk(lines, 8)); });
  row("sort.topk_50_of_vocabulary." + type, [&] { return std::get<0>(topk(vocabulary, 50)); });
  row("sort.median_rows." + type, [&] { return std::get<0>(median(lines, 1)); });
  if (dtype != kFloat32) return;
  const Tensor numbers = indices({sized(1 << 24, 1 << 20)}, 1 << 20);
  const Tensor edges = std::get<0>(sort(values({1 << 20}, dtype)));
  row("sort.unique." + type, [&] { return std::get<0>(unique(numbers)); });
  row("sort.bincount." + type, [&] { return bincount(numbers); });
  row("sort.searchsorted." + type, [&] { return searchsorted(edges, flat); });
}

/// ResNet-50's kinds of layers.
void convolutions(DType dtype, const std::string& type) {
  if (!any_wanted("conv")) return;
  struct Layer {
    int64_t in, out, kernel, stride, size;
  };
  const Layer layers[] = {{3, 64, 7, 2, 224},    {64, 64, 1, 1, 56},   {64, 64, 3, 1, 56},
                          {128, 128, 3, 1, 28},  {256, 512, 1, 2, 56}, {256, 256, 3, 1, 14},
                          {1024, 256, 1, 1, 14}, {512, 512, 3, 1, 7}};
  for (const Layer& l : layers) {
    const std::string name = "conv." + std::to_string(l.in) + "_" + std::to_string(l.out) + "_" +
                             std::to_string(l.kernel) + "_" + std::to_string(l.stride) + "_" +
                             std::to_string(l.size);
    if (!is_wanted(name, type)) continue;
    const MemoryFormat format = on_gpu() ? MemoryFormat::channels_last : MemoryFormat::contiguous;
    const Tensor x = values({sized(128, 4), l.in, l.size, l.size}, dtype).contiguous(format);
    const Tensor w = values({l.out, l.in, l.kernel, l.kernel}, dtype, 0.11).contiguous(format);
    both(name, type, {x, w}, l.in == 3 ? 1 : 2,
         [&](const Inputs& in) { return conv2d(in[0], in[1], {}, l.stride, l.kernel / 2); });
  }
  const Tensor image = values({sized(64, 4), 64, 112, 112}, dtype);
  both("conv.max_pool", type, {image}, 1,
       [](const Inputs& in) { return max_pool2d(in[0], 3, 2, 1); });
  both("conv.avg_pool", type, {image}, 1, [](const Inputs& in) { return avg_pool2d(in[0], 2); });
  both("conv.bilinear", type, {image}, 1, [](const Inputs& in) {
    return interpolate(in[0], {}, std::vector<double>{2.0}, "bilinear");
  });
}

/// One query for each sequence, 32 heads of which four share a head of keys.
void decode(DType dtype, const std::string& type) {
  if (!on_gpu()) return;
  for (const auto& [batch, length] :
       {std::pair{1, 8192}, std::pair{32, 2048}, std::pair{64, 8192}}) {
    const std::string name =
        "attention.decode_" + std::to_string(batch) + "_" + std::to_string(length) + "." + type;
    if (name.find(wanted) == std::string::npos) continue;
    const auto made = [&](int64_t heads, int64_t rows, double step) {
      return values({batch, heads, rows, 128}, dtype, step);
    };
    const Tensor q = made(32, 1, 0.618033988), k = made(8, length, 0.324717957),
                 v = made(8, length, 0.754877666);
    row(name, [&] { return scaled_dot_product_attention(q, k, v, {}, 0, false, {}, true); });
  }
}

void attention(DType dtype, const std::string& type) {
  if (!any_wanted("attention")) return;
  struct Sizes {
    int64_t batch, heads, kv_heads, length, head;
    bool causal;
  };
  const std::vector<Sizes> gpu = {{4, 32, 32, 4096, 128, true}, {4, 32, 32, 4096, 128, false},
                                  {4, 32, 32, 4096, 64, true},  {16, 32, 32, 512, 128, true},
                                  {32, 12, 12, 1024, 64, true}, {2, 32, 8, 8192, 128, true},
                                  {64, 16, 16, 197, 64, false}, {4, 16, 16, 4096, 256, true},
                                  {16, 32, 32, 512, 64, true},  {1, 32, 8, 32768, 128, true}};
  const std::vector<Sizes> cpu = {{1, 12, 12, 1024, 64, true}, {1, 8, 8, 512, 128, false}};
  for (const Sizes& s : on_gpu() ? gpu : cpu) {
    if (on_gpu() && dtype == kFloat32) return;
    std::string name = "attention";
    for (int64_t n : {s.batch, s.heads, s.kv_heads, s.length, s.head})
      name += (name == "attention" ? "." : "_") + std::to_string(n);
    name += s.causal ? "_causal" : "";
    if (!is_wanted(name, type)) continue;
    const auto made = [&](int64_t heads, double step) {
      return values({s.batch, heads, s.length, s.head}, dtype, step);
    };
    const bool grouped = s.heads != s.kv_heads;
    // On a GPU a size that has come often may run by other kernels: those are timed.
    both(
        name, type,
        {made(s.heads, 0.618033988), made(s.kv_heads, 0.324717957), made(s.kv_heads, 0.754877666)},
        3,
        [&](const Inputs& in) {
          return scaled_dot_product_attention(in[0], in[1], in[2], {}, 0, s.causal, {}, grouped);
        },
        on_gpu() ? 100 : 0);
  }
  decode(dtype, type);
}

/// A step over as many parameters as GPT-2 has, in as many tensors; on the CPU a tenth of them.
void optimizers() {
  if (!any_wanted("optim")) return;
  std::vector<Tensor> params, grads, means, squares;
  for (int i = 0; i < sized(148, 16); ++i) {
    params.push_back(values({838000}));
    grads.push_back(values({838000}, kFloat32, 0.11));
    means.push_back(zeros_like(params.back()));
    squares.push_back(zeros_like(params.back()));
  }
  int64_t step = 0;
  row("optim.adamw.f32", [&] {
    fused_adamw_(params, grads, means, squares, {}, {.weight_decay = 0.01, .step = ++step});
    return params[0];
  });
  for (size_t i = 0; i < params.size(); ++i) params[i].set_grad(grads[i]);
  row("optim.clip_grad_norm.f32", [&] { return clip_grad_norm_(params, 1e9); });
}

}  // namespace

void network_rows() {
  optimizers();
  for (const auto& [dtype, type] : {std::pair{kFloat32, "f32"}, std::pair{kBFloat16, "bf16"}}) {
    norms(dtype, type);
    losses(dtype, type);
    sorting(dtype, type);
    convolutions(dtype, type);
    attention(dtype, type);
  }
}

}  // namespace tensora::bench_ops
