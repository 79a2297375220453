// Mistakes that belong to no single op: memory, devices, dtypes, and the graph.
#include "tests/suite/mistakes.h"

namespace tensora::suite {
namespace {

Tensor parameter() { return ones({3}, {.device = device(), .requires_grad = true}); }

void add_memory_mistakes(Cases& cases) {
  cases.error("empty", "2^60 bytes", "out of memory",
              [] { empty({int64_t{1} << 58}, {.device = device()}); });
  cases.error("empty", "more bytes than integers count", "too many elements", [] {
    empty({int64_t{1} << 40, int64_t{1} << 40}, {.device = device()});
  });
  cases.error("empty", "a negative size", "negative", [] { empty({2, -1}, {.device = device()}); });
  cases.error("empty", "17 dims", "at most 16 dimensions", [] { empty(Shape::filled(17, 1)); });
  cases.error("zeros", "2^60 bytes", "out of memory",
              [] { zeros({int64_t{1} << 58}, {.device = device()}); });
  cases.error("add", "a broadcast result of 2^60 bytes", "out of memory", [] {
    const Tensor one = zeros({1}, {.dtype = kBool, .device = device()});
    (void)(one.expand({int64_t{1} << 30, 1}) + one.expand({int64_t{1} << 30}));
  });
}

void add_tensor_mistakes(Cases& cases) {
  cases.error("tensor", "an undefined tensor", "undefined", [] { (void)(Tensor() + ones({2})); });
  cases.error("item", "several elements", "one element", [] { ones({2}).item(); });
  cases.error("item", "no data", "meta tensor", [] { ones({}, {.device = "meta"}).item(); });
  cases.error("data_ptr", "another dtype", "float32", [] { ones({2}).data_ptr<double>(); });
  cases.error("size", "dim out of range", "dimension out of range", [] { ones({2}).size(1); });
  cases.error("dtype", "unknown name", "float12", [] { parse_dtype("float12"); });
  cases.error("device", "unknown name", "toaster", [] { Device("toaster"); });
  cases.error("device", "no such index", "cuda", [] { zeros({1}, {.device = "cuda:99"}); });
  cases.error("device", "mixed", "one device",
              [] { (void)(ones({2}, {.device = device()}) + ones({2}, {.device = "meta"})); });
  cases.error("device", "mixed in place", "device",
              [] { ones({2}, {.device = device()}).add_(ones({2}, {.device = "meta"})); });
  cases.error("set_num_threads", "none", "set_num_threads", [] { set_num_threads(0); });
}

void add_graph_mistakes(Cases& cases) {
  cases.error("backward", "twice", "retain_graph", [] {
    const Tensor y = (parameter() * parameter()).sum();
    y.backward();
    y.backward();
  });
  cases.error("backward", "of what needs no gradient", "does not require grad",
              [] { ones({}, {.device = device()}).backward(); });
  cases.error("backward", "under no_grad", "does not require grad", [] {
    const Tensor w = parameter();
    const no_grad silent;
    w.sum().backward();
  });
  cases.error("backward", "of several elements without a gradient", "single-element",
              [] { (parameter() * 2).backward(); });
  cases.error("backward", "a gradient of another shape", "shape",
              [] { (parameter() * 2).backward(ones({2}, {.device = device()})); });
  cases.error("backward", "through a tensor changed in place", "'exp'", [] {
    const Tensor y = exp(parameter());
    y.add_(1);
    y.sum().backward();
  });
  cases.error("grad", "an unused input", "not used",
              [] { grad(parameter().sum(), {parameter()}); });
  cases.error("grad", "an input without gradient", "does not require grad",
              [] { grad(parameter().sum(), {ones({3})}); });
  cases.error("requires_grad_", "an integer tensor", "floating-point",
              [] { ones({2}, {.dtype = kInt64}).requires_grad_(); });
  cases.error("requires_grad_", "not a leaf", "leaf",
              [] { (parameter() * 2).requires_grad_(false); });
  cases.error("add_", "a leaf that requires grad", "leaf", [] { parameter().add_(1); });
  cases.error("add_", "a view of such a leaf", "view of a leaf",
              [] { parameter().narrow(0, 0, 2).add_(1); });
  cases.error("add_", "a tensor of inference_mode", "inference_mode", [] {
    Tensor x;
    {
      const inference_mode only;
      x = ones({2}, {.device = device()});
    }
    x.add_(1);
  });
}

}  // namespace

void general_mistakes(Cases& cases) {
  add_memory_mistakes(cases);
  add_tensor_mistakes(cases);
  add_graph_mistakes(cases);
}

}  // namespace tensora::suite
