#include "tensora/dispatch/op.h"

#include <atomic>
#include <fstream>
#include <sstream>
#include <thread>

#include "tensora/dispatch/interceptor.h"
#include "tensora/dispatch/op_node.h"
#include "tests/dispatch/json.h"
#include "tests/helpers.h"

namespace tensora::testing {
namespace {

// ---- devices ----------------------------------------------------------------------------------

TEST(Devices, MixingThemIsAnErrorThatNamesBoth) {
  const Tensor cpu = zeros({2}), meta = zeros({2}, {.device = "meta"});
  const std::string text = error_of([&] { (void)(cpu + meta); });
  EXPECT_TRUE(contains(text, "add")) << text;
  EXPECT_TRUE(contains(text, "cpu") && contains(text, "meta")) << text;
  EXPECT_FALSE(error_of([&] { cpu.add_(meta); }).empty());
  EXPECT_FALSE(error_of([&] { meta.add_(cpu); }).empty());
}

TEST(Devices, CpuNumbersJoinAnyDevice) {
  const Tensor meta = zeros({2}, {.device = "meta"});
  EXPECT_TRUE((meta * 2).is_meta());
  EXPECT_TRUE((meta * tensor(2.0)).is_meta());
  EXPECT_TRUE((tensor(2.0) * meta).is_meta());
}

TEST(Devices, MetaTensorsHaveShapesButNoData) {
  const Tensor x = zeros({3, 1}, {.device = "meta", .requires_grad = true});
  const Tensor y = (x * zeros({4}, {.device = "meta"})).sum(1);
  EXPECT_EQ(y.sizes(), Shape{3});
  y.sum().backward();
  EXPECT_EQ(x.grad().sizes(), (Shape{3, 1}));
  EXPECT_TRUE(contains(error_of([&] { y.sum().item(); }), "meta"));
}

TEST(Devices, HugeMetaTensorsCostNothing) {
  const Tensor x = empty({1 << 20, 1 << 20}, {.device = "meta"});
  EXPECT_EQ((x + x).numel(), int64_t{1} << 40);
}

TEST(Devices, AbsentDeviceSaysSo) {
  if (is_available(DeviceType::cuda)) GTEST_SKIP() << "there is a GPU";
  EXPECT_FALSE(error_of([] { zeros({2}, {.device = "cuda"}); }).empty());
  EXPECT_FALSE(unavailable_reason(DeviceType::cuda).empty());
}

// ---- autocast ---------------------------------------------------------------------------------

TEST(Autocast, MatrixProductsRunInTheLowerType) {
  const Tensor a = ones({2, 3}), b = ones({3, 2});
  {
    const autocast lower(kBFloat16);
    EXPECT_EQ(matmul(a, b).dtype(), kBFloat16);
    EXPECT_EQ((a + a).dtype(), kFloat32);
    const autocast off({.enabled = false});
    EXPECT_EQ(matmul(a, b).dtype(), kFloat32);
  }
  EXPECT_EQ(matmul(a, b).dtype(), kFloat32);
}

TEST(Autocast, Float64StaysAsItIs) {
  const autocast lower(kBFloat16);
  const Tensor a = ones({2, 2}, {.dtype = kFloat64});
  EXPECT_EQ(matmul(a, a).dtype(), kFloat64);
}

TEST(Autocast, GradientsComeBackInTheParametersType) {
  const Tensor w = ones({3, 2}, {.requires_grad = true});
  {
    const autocast lower(kBFloat16);
    matmul(ones({2, 3}), w).sum().backward();
  }
  EXPECT_EQ(w.grad().dtype(), kFloat32);
  EXPECT_EQ(values(w.grad()), (Values{2, 2, 2, 2, 2, 2}));
}

TEST(Autocast, OnlyHalfTypes) {
  EXPECT_FALSE(error_of([] { const autocast wrong(kFloat32); }).empty());
}

// ---- profiler ---------------------------------------------------------------------------------

std::string text_of(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(Profiler, WritesChromeJson) {
  const std::string path = ::testing::TempDir() + "tensora_trace.json";
  {
    const Profiler profiler;
    const ProfilerRange mine("my \"scope\"\n");
    const Tensor x = leaf({1, 2});
    exp(x).sum().backward();
    profiler.write_chrome_trace(path);
    EXPECT_TRUE(contains(profiler.table(), "exp"));
  }
  const std::string text = text_of(path);
  EXPECT_TRUE(is_valid_json(text)) << text;
  for (std::string_view op : {"exp", "sum", "exp_backward"})
    EXPECT_TRUE(contains(text, concat("\"name\":\"", op, "\""))) << op;
  std::remove(path.c_str());
}

TEST(Profiler, OneAtATimeAndOffAfterwards) {
  {
    const Profiler first;
    EXPECT_TRUE(contains(error_of([] { const Profiler second; }), "already running"));
    exp(constant({1}));
    EXPECT_TRUE(contains(first.table(), "exp"));
  }
  EXPECT_FALSE(detail::profiling.load_relaxed());
  const Profiler next;
  EXPECT_FALSE(contains(next.table(), "exp"));
}

TEST(Profiler, SeesAllThreads) {
  const std::string path = ::testing::TempDir() + "tensora_threads.json";
  std::atomic<bool> done = false;
  std::thread before([&] {  // computes while profilers begin, are read and end
    while (!done) exp(constant({1}));
  });
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(Profiler().table().empty());
  {
    const Profiler profiler;
    std::vector<std::thread> threads;
    for (int id = 0; id < 3; ++id)
      threads.emplace_back([] {
        for (int i = 0; i < 50; ++i) const ProfilerRange mine("of a thread");
      });
    for (std::thread& thread : threads) thread.join();
    profiler.write_chrome_trace(path);
  }
  done = true;
  before.join();
  const std::string text = text_of(path);
  std::remove(path.c_str());
  EXPECT_TRUE(is_valid_json(text));
  int count = 0;
  for (size_t at = 0; (at = text.find("of a thread", at)) != text.npos; ++at) ++count;
  EXPECT_EQ(count, 150);
}

TEST(Profiler, UnwritablePath) {
  const Profiler profiler;
  EXPECT_TRUE(contains(error_of([&] { profiler.write_chrome_trace("/no/such/folder/x.json"); }),
                       "could not be written"));
}

TEST(Json, TheCheckerItselfWorks) {
  EXPECT_TRUE(is_valid_json(R"({"a": [1, -2.5e3, true, null, "x\"\u00e9"], "b": {}})"));
  for (const char* wrong : {"", "{", "[1,]", "{\"a\" 1}", "\"\n\"", "nul", "[1] 2"})
    EXPECT_FALSE(is_valid_json(wrong)) << wrong;
}

// ---- interceptors -----------------------------------------------------------------------------

/// Notes the calls that pass.
struct Recorder : Interceptor {
  std::vector<std::string> calls;
  Tensors intercept(const Call& call) override {
    calls.push_back(concat(call.op.name, call.inplace ? "_" : "", "(",
                           to_string(call.op.list_attrs(call.attrs)), ") ", call.inputs.size()));
    return proceed(call);
  }
};

TEST(Interceptor, SeesCallsWithTheirAttributes) {
  Recorder recorder;
  const Tensor x = ones({2, 3});
  Tensor y;
  {
    const InterceptorScope installed(recorder);
    y = exp(x.add(x, 2).transpose(0, 1));
    x.add_(1);
  }
  exp(x);
  ASSERT_EQ(recorder.calls.size(), 4u);
  EXPECT_EQ(recorder.calls[0], "add(alpha=2) 2");
  EXPECT_EQ(recorder.calls[2], "exp() 1");
  EXPECT_EQ(recorder.calls[3], "add_(alpha=1) 2");
  EXPECT_EQ(to_string(y.sizes()), "[3, 2]");
  EXPECT_EQ(values(x), (Values{2, 2, 2, 2, 2, 2}));
}

TEST(Interceptor, SeesWhereTensorsComeFrom) {
  Recorder recorder;
  const InterceptorScope installed(recorder);
  EXPECT_EQ(to_string(zeros({2}).sizes()), "[2]");
  ASSERT_EQ(recorder.calls.size(), 2u);
  EXPECT_TRUE(contains(recorder.calls[0], "empty_strided(size=[2]"));
  EXPECT_EQ(recorder.calls[1], "fill_(value=0) 1");
}

TEST(Interceptor, IsStillThereAfterAnError) {
  Recorder recorder;
  const InterceptorScope installed(recorder);
  EXPECT_FALSE(error_of([] { (void)(zeros({2}) + zeros({3})); }).empty());
  EXPECT_EQ(thread_state.interceptor, &recorder);
}

/// Runs sub where add was called, by the public function.
struct AddBecomesSub : Interceptor {
  Tensors intercept(const Call& call) override {
    if (call.op.name != "add") return proceed(call);
    Tensors results;
    results.push_back(sub(*call.inputs[0], *call.inputs[1]));
    return results;
  }
};

TEST(Interceptor, TheTopmostComesFirst) {
  const Tensor a = constant({5}), b = constant({2});
  AddBecomesSub rewriting;
  Recorder recorder;
  {
    const InterceptorScope below(recorder);
    const InterceptorScope above(rewriting);
    EXPECT_EQ(values(a + b), (Values{3}));
  }
  EXPECT_EQ(recorder.calls, std::vector<std::string>{"sub(alpha=1) 2"});
  recorder.calls.clear();
  {
    const InterceptorScope below(rewriting);
    const InterceptorScope above(recorder);
    EXPECT_EQ(values(a + b), (Values{3}));
  }
  EXPECT_EQ(recorder.calls, std::vector<std::string>{"add(alpha=1) 2"});
  EXPECT_EQ(thread_state.interceptor, nullptr);
}

TEST(Interceptor, ComesAfterAutocast) {
  struct Dtypes : Interceptor {
    std::vector<std::string> seen;
    Tensors intercept(const Call& call) override {
      seen.push_back(concat(call.op.name, " ", call.inputs[0]->dtype()));
      return proceed(call);
    }
  } recorder;
  const Tensor x = ones({2, 2});
  const InterceptorScope installed(recorder);
  const autocast lower(kBFloat16);
  EXPECT_EQ(mm(x, x).dtype(), kBFloat16);
  EXPECT_EQ(recorder.seen,
            (std::vector<std::string>{"cast float32", "cast float32", "matmul bfloat16"}));
}

TEST(Interceptor, HearsOfReads) {
  struct Listener : Interceptor {
    int reads = 0;
    Tensors intercept(const Call& call) override { return proceed(call); }
    void before_read(const Tensor&) override { ++reads; }
  } listener;
  const Tensor x = constant({5}).sum();
  const InterceptorScope installed(listener);
  EXPECT_EQ(x.item<double>(), 5);
  EXPECT_EQ(listener.reads, 1);
}

// ---- ops by name ------------------------------------------------------------------------------

TEST(ApplyByName, WithAttributes) {
  const std::vector<Tensor> inputs{constant({1, 2}), constant({10, 20})};
  const std::pair<std::string, AttrValue> alpha[] = {{"alpha", to_attr_value(3)}};
  EXPECT_EQ(values(apply_by_name("add", inputs, alpha)[0]), (Values{31, 62}));
  EXPECT_EQ(values(apply_by_name("add", inputs, {})[0]), (Values{11, 22}));
}

TEST(ApplyByName, Mistakes) {
  const std::vector<Tensor> inputs{constant({1}), constant({2})};
  EXPECT_TRUE(contains(error_of([] { apply_by_name("no_such_op", {}, {}); }), "no_such_op"));
  const std::pair<std::string, AttrValue> unknown[] = {{"beta", to_attr_value(3)}};
  EXPECT_TRUE(contains(error_of([&] { apply_by_name("add", inputs, unknown); }), "'beta'"));
}

TEST(ApplyByName, WrongNumbersOfInputs) {
  const std::vector<Tensor> inputs{constant({1}), constant({2}), constant({3})};
  const auto message = [&](std::string_view op, size_t count) {
    return error_of([&] { apply_by_name(op, std::span(inputs).first(count), {}); });
  };
  EXPECT_EQ(message("add", 1), "add: expected 2 inputs (self, other), got 1");
  EXPECT_EQ(message("exp", 2), "exp: expected 1 input (self), got 2");
  EXPECT_EQ(message("matmul", 1), "matmul: expected 2 inputs (self, other), got 1");
  EXPECT_EQ(message("sum", 0), "sum: expected 1 input (self), got 0");
  EXPECT_EQ(message("adam", 1),
            "adam: expected 4 to 5 inputs (param, exp_avg, exp_avg_sq, grad, state_step), got 1");
  EXPECT_EQ(message("index", 0), "index: expected at least 1 inputs (self, indices), got 0");
}

TEST(Registry, NamesAreUniqueAndEveryOpStatesItsGradient) {
  std::map<std::string_view, int> names;
  for (const OpBase* op : op_registry().all()) {
    EXPECT_EQ(++names[op->name], 1) << op->name;
    EXPECT_NE(op->gradient, Gradient::unstated) << op->name;
  }
  EXPECT_EQ(op_registry().find("exp")->name, "exp");
  EXPECT_EQ(op_registry().find("no_such_op"), nullptr);
}

// ---- ops of the test's own --------------------------------------------------------------------

struct FactorAttrs {
  double factor = 2;
};
constexpr auto describe(std::type_identity<FactorAttrs>) {
  return fields(field("factor", &FactorAttrs::factor));
}
Tensors times(Args in, const FactorAttrs& attrs) { return Tensors{*in[0] * attrs.factor}; }

constinit OpDef<FactorAttrs> composite_op = define(Op<FactorAttrs>{
    .name = "test_composite",
    .inputs = {"self"},
    .reference = times,
    .gradient = Gradient::by_reference,
});
constinit OpDef<FactorAttrs> own_rule_op = define(Op<FactorAttrs>{
    .name = "test_own_rule",
    .inputs = {"self"},
    .infer = [](Infer& infer,
                const FactorAttrs&) { infer.output(infer[0].sizes(), infer[0].dtype()); },
    .reference = times,
    .vjp = [](Vjp& vjp, const FactorAttrs&) { vjp.set(0, vjp.grad() * 100); },
});
constinit OpDef<FactorAttrs> no_gradient_op = define(Op<FactorAttrs>{
    .name = "test_no_gradient",
    .inputs = {"self"},
    .infer = [](Infer& infer,
                const FactorAttrs&) { infer.output(infer[0].sizes(), infer[0].dtype()); },
    .reference = times,
    .gradient = Gradient::not_differentiable,
});
constinit OpDef<FactorAttrs> no_kernel_op = define(Op<FactorAttrs>{
    .name = "test_no_kernel",
    .inputs = {"self"},
    .primitive = true,
    .infer = [](Infer& infer,
                const FactorAttrs&) { infer.output(infer[0].sizes(), infer[0].dtype()); },
    .gradient = Gradient::not_differentiable,
});

TEST(Reference, RunsWhereThereIsNoKernel) {
  const Tensor x = leaf({1, 2});
  const Tensor y = apply(composite_op, {x}, {3});
  EXPECT_EQ(values(y), (Values{3, 6}));
  y.sum().backward();
  EXPECT_EQ(values(x.grad()), (Values{3, 3}));
}

TEST(Reference, OwnRuleWins) {
  const Tensor x = leaf({1, 2});
  apply(own_rule_op, {x}, {3}).sum().backward();
  EXPECT_EQ(values(x.grad()), (Values{100, 100}));
}

TEST(Reference, WorksOnMetaTensors) {
  const Tensor meta = zeros({2}, {.device = "meta"});
  EXPECT_EQ(apply(composite_op, {meta}).sizes(), Shape{2});
  EXPECT_EQ(apply(own_rule_op, {meta}).sizes(), Shape{2});
}

TEST(Reference, WorksInPlace) {
  const Tensor x = constant({1, 2});
  apply_inplace(composite_op, {x}, {3});
  apply_inplace(own_rule_op, {x}, {2});
  EXPECT_EQ(values(x), (Values{6, 12}));
  const Tensor w = leaf({1, 2});
  const Tensor y = w * 1;
  apply_inplace(composite_op, {y}, {3});
  y.sum().backward();
  EXPECT_EQ(values(w.grad()), (Values{3, 3}));
}

TEST(Gradients, NotDifferentiableThrowsByName) {
  const Tensor x = leaf({1});
  const Tensor y = apply(no_gradient_op, {x});
  EXPECT_TRUE(
      contains(error_of([&] { y.backward(); }), "'test_no_gradient' is not differentiable"));
}

TEST(Kernels, MissingKernelIsNamed) {
  const std::string text = error_of([] { apply(no_kernel_op, {constant({1})}); });
  EXPECT_TRUE(contains(text, "test_no_kernel") && contains(text, "cpu kernel")) << text;
}

}  // namespace
}  // namespace tensora::testing
