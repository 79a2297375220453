// Tile programs: the CPU's engine against the plain interpreter and against eager ops.
#include <cstring>
#include <random>

#include "tensora/base/thread_pool.h"
#include "tensora/jit/row_ops.h"
#include "tensora/jit/tile_kernel.h"
#include "tensora/ops/norm/row_norm.h"
#include "tensora/ops/norm/softmax.h"
#include "tensora/ops/pointwise/all.h"
#include "tensora/ops/pointwise/all_backwards.h"
#include "tensora/ops/reduce/amax.h"
#include "tensora/ops/reduce/reduce_common.h"
#include "tensora/ops/reduce/sum.h"
#include "tests/helpers.h"

namespace tensora::test {
namespace {

using jit::Extent;
using jit::TileProgram;
using ::tensora::testing::error_of;
using Step = TileProgram::Step;

Tensor sample(const Shape& sizes, DType dtype = kFloat32, int seed = 1) {
  Tensor values = empty(sizes, {.dtype = kFloat64});
  double* data = values.data_ptr<double>();
  for (int64_t i = 0; i < values.numel(); ++i)
    data[i] = static_cast<double>((i * 7919 + seed * 104729) % 4001) / 1000.0 - 2;
  return dtype == kBool ? values > 0 : values.to(dtype);
}

template <class F>
Step pointwise(const F& functor, std::vector<int> operands, DType dtype = kFloat32,
               DType compute = kFloat32, Extent extent = Extent::element) {
  const OpBase& op = pointwise_op<F>();
  return {.kind = Step::Kind::pointwise,
          .op = &op,
          .attrs = jit::AttrsCopy(op, &functor),
          .operands = std::move(operands),
          .dtype = dtype,
          .compute_dtype = compute,
          .extent = extent};
}

Step reduce(const OpDef<ReduceAttrs>& op, int operand, DType dtype = kFloat32) {
  const ReduceAttrs attrs{{-1}, true, {}};
  return {.kind = Step::Kind::reduce,
          .op = &op,
          .attrs = jit::AttrsCopy(op, &attrs),
          .operands = {operand},
          .dtype = dtype,
          .extent = Extent::row};
}

Step cast(int operand, DType dtype, Extent extent = Extent::element) {
  return {.kind = Step::Kind::cast, .operands = {operand}, .dtype = dtype, .extent = extent};
}

/// The results of a program on tensors of a space, by `run`.
template <class Run>
std::vector<Tensor> results_of(const TileProgram& program, const std::vector<Tensor>& inputs,
                               const Shape& sizes, int row_dims, Run&& run) {
  std::vector<Tensor> results;
  std::vector<const View*> in, out;
  for (const Tensor& input : inputs) in.push_back(&input.impl().view);
  for (int value : program.results) {
    Shape shape = sizes;
    if (program.extent_of(value) == Extent::row)
      for (int d = 0; d < row_dims; ++d) shape[sizes.size() - 1 - d] = 1;
    results.push_back(empty(shape, {.dtype = program.dtype_of(value)}));
  }
  for (const Tensor& result : results) out.push_back(&result.impl().view);
  run(jit::TileCall{.sizes = sizes, .row_dims = row_dims, .inputs = in, .results = out});
  return results;
}

std::vector<Tensor> run_program(const TileProgram& program, const std::vector<Tensor>& inputs,
                                const Shape& sizes, int row_dims = 1) {
  const jit::PreparedTile kernel = jit::prepare(program, kCPU);
  return results_of(program, inputs, sizes, row_dims,
                    [&](const jit::TileCall& call) { kernel.launch(call); });
}

void expect_identical(const Tensor& actual, const Tensor& expected, const std::string& what = {}) {
  ASSERT_EQ(to_string(actual.sizes()), to_string(expected.sizes())) << what;
  ASSERT_EQ(name(actual.dtype()), name(expected.dtype())) << what;
  const Tensor a = actual.contiguous(), b = expected.contiguous();
  if (std::memcmp(a.data_ptr(), b.data_ptr(), a.nbytes()) == 0) return;
  const Tensor x = a.to(kFloat64), y = b.to(kFloat64);
  for (int64_t i = 0; i < x.numel(); ++i) {
    const double p = x.data_ptr<double>()[i], q = y.data_ptr<double>()[i];
    ASSERT_TRUE(p == q || (p != p && q != q))
        << what << ": element " << i << " is " << p << ", not " << q;
  }
}

/// The engine and the interpreter agree bit by bit.
void expect_as_interpreted(const TileProgram& program, const std::vector<Tensor>& inputs,
                           const Shape& sizes, int row_dims = 1) {
  const auto expected = results_of(program, inputs, sizes, row_dims,
                                   [&](const auto& call) { jit::interpret(program, call); });
  const auto actual = run_program(program, inputs, sizes, row_dims);
  for (size_t i = 0; i < expected.size(); ++i)
    expect_identical(actual[i], expected[i], concat(to_string(program), "result ", i));
}

// gelu(x * y + 1) * sigmoid(x), in one dtype
TileProgram chain(DType dtype) {
  TileProgram program;
  const int x = program.add(TileProgram::Input{.dtype = dtype});
  const int y = program.add(TileProgram::Input{.dtype = dtype});
  const int one = program.add(Step{.kind = Step::Kind::number, .dtype = dtype, .number = 1});
  const int product = program.add(pointwise(functors::Mul{}, {x, y}, dtype, dtype));
  const int sum = program.add(pointwise(functors::Add{}, {product, one}, dtype, dtype));
  const int left = program.add(pointwise(functors::Gelu{}, {sum}, dtype, dtype));
  const int right = program.add(pointwise(functors::Sigmoid{}, {x}, dtype, dtype));
  program.results = {program.add(pointwise(functors::Mul{}, {left, right}, dtype, dtype))};
  return program;
}

Tensor eager_chain(const Tensor& x, const Tensor& y) {
  const Tensor left = gelu(x * y + 1), right = sigmoid(x);
  return left * right;
}

TEST(TileProgram, ChainEqualsEager) {
  for (DType dtype : {kFloat32, kBFloat16, kFloat16, kFloat64})
    for (int64_t n : {1, 64, 4096, 100'032, 5'000'000}) {
      const Tensor x = sample({n}, dtype), y = sample({n}, dtype, 2);
      const Tensor actual = run_program(chain(dtype), {x, y}, {n})[0];
      const Tensor expected = eager_chain(x, y);
      // Functions of the C library differ in the last bit where a loop ends (Note [Stages]).
      const int64_t whole = n / 64 * 64;
      expect_identical(actual.narrow(0, 0, whole), expected.narrow(0, 0, whole),
                       concat(dtype, " ", n));
      EXPECT_TRUE(allclose(actual.to(kFloat64), expected.to(kFloat64), 1e-2, 1e-5));
    }
}

TEST(TileProgram, AnyStrides) {
  const TileProgram program = chain(kFloat32);
  const auto test = [&](const Tensor& x, const Tensor& y) {
    const Shape sizes = broadcast_shapes(x.sizes(), y.sizes(), "test");
    const Tensor actual = run_program(program, {x, y}, sizes)[0];
    EXPECT_TRUE(allclose(actual, eager_chain(x, y), 2e-6, 1e-7)) << x.sizes() << y.sizes();
  };
  test(sample({64, 40}), sample({40}));
  test(sample({3000, 3}), sample({3}));
  test(sample({5, 64, 40}), sample({64, 1}));
  test(sample({7, 5000}), sample({7, 1}));
  test(sample({64, 40}), sample({}));
  test(sample({}), sample({}));
  test(sample({0, 3}), sample({3}));
  test(sample({200, 300}).transpose(0, 1), sample({300, 1}));
  test(sample({200, 300}).narrow(1, 3, 100), sample({100}));
  test(sample({20, 30, 5, 7}).permute({2, 0, 3, 1}), sample({7, 30}));
  test(sample({1000, 513}).transpose(0, 1), sample({1000, 513}).transpose(0, 1));
}

TEST(TileProgram, AttributesComeWithTheCall) {
  TileProgram program;
  const int x = program.add(TileProgram::Input{});
  program.results = {program.add(pointwise(functors::LeakyRelu{}, {x}))};
  const jit::PreparedTile kernel = jit::prepare(program, kCPU);
  const Tensor input = sample({100});
  for (double slope : {0.1, 0.5}) {
    const functors::LeakyRelu functor{{}, slope};
    const void* const attrs[] = {&functor};
    const auto actual = results_of(program, {input}, {100}, 1, [&](jit::TileCall call) {
      call.attrs = attrs;
      kernel.launch(call);
    });
    expect_identical(actual[0], leaky_relu(input, slope));
  }
}

TEST(TileProgram, ValuesAreKeptWhereTheyAreUsedAgain) {
  TileProgram program;
  std::vector<int> values;
  for (int i = 0; i < 4; ++i) values.push_back(program.add(TileProgram::Input{}));
  std::mt19937 random(7);
  const auto any = [&] { return values[random() % values.size()]; };
  for (int i = 0; i < 60; ++i) {
    int value = 0;
    switch (random() % 5) {
      case 0:
        value = program.add(pointwise(functors::Add{}, {any(), any()}));
        break;
      case 1:
        value = program.add(pointwise(functors::Sub{}, {any(), any()}));
        break;
      case 2:
        value = program.add(pointwise(functors::Tanh{}, {any()}));
        break;
      case 3:
        value = program.add(pointwise(functors::Where{}, {any(), any(), any()}));
        break;
      default:
        value = program.add(pointwise(functors::Maximum{}, {any(), any()}));
    }
    values.push_back(value);
    if (i % 10 == 0) program.results.push_back(value);
  }
  program.results.push_back(values.back());
  program.results.push_back(values.back());  // twice
  program.results.push_back(0);              // an input
  for (const Shape& sizes : {Shape{1000}, Shape{33, 65}, Shape{4, 5, 6}})
    expect_as_interpreted(
        program, {sample(sizes), sample(sizes, kFloat32, 2), sample({}), sample(sizes)}, sizes);
}

TEST(TileProgram, MixedDtypes) {
  TileProgram program;
  const int x = program.add(TileProgram::Input{.dtype = kBFloat16});
  const int mask = program.add(TileProgram::Input{.dtype = kBool});
  const int n = program.add(TileProgram::Input{.dtype = kInt64});
  const int wide = program.add(cast(x, kFloat32));
  const int whole = program.add(pointwise(functors::Add{}, {n, n}, kInt64, kInt64));
  const int sum = program.add(pointwise(functors::Add{}, {wide, whole}));
  const int above = program.add(pointwise(functors::Gt{}, {sum, wide}, kBool, kFloat32));
  const int both = program.add(pointwise(functors::LogicalAnd{}, {above, mask}, kBool, kBool));
  const int chosen = program.add(pointwise(functors::Where{}, {both, sum, wide}));
  program.results = {program.add(cast(chosen, kFloat16)), program.add(cast(chosen, kInt32)), above};
  for (const Shape& sizes : {Shape{5000}, Shape{20, 31}})
    expect_as_interpreted(
        program, {sample(sizes, kBFloat16), sample(sizes, kBool, 3), sample(sizes, kInt64, 4)},
        sizes);
}

template <class F>
void expect_functor(const F& functor, int arity, std::string_view name) {
  TileProgram program;
  std::vector<int> operands;
  std::vector<Tensor> inputs;
  for (int k = 0; k < arity; ++k) {
    operands.push_back(program.add(TileProgram::Input{}));
    inputs.push_back(sample({1280}, kFloat32, k + 1).abs() * 0.3 + 0.1);
  }
  int value = program.add(pointwise(functor, operands));
  value = program.add(pointwise(functors::Neg{}, {value}));
  program.results = {value};
  SCOPED_TRACE(name);
  expect_as_interpreted(program, inputs, {1280});
}

TEST(TileProgram, EveryFunctorGivesEagersBits) {
  int count = 0;
  for_each_functor([&]<class F>() {
    if constexpr (functors::computes_floats(F::types)) {
      expect_functor(F{}, F::arity, F::name);
      ++count;
    }
  });
  for_each_backward([&]<class B>() {
    expect_functor(B{}, B::arity, pointwise_op<B>().name);
    ++count;
  });
  EXPECT_GT(count, 150);
}

// softmax(x / 3 + mask) by steps, its row's maximum, and the op itself
TileProgram softmax_steps(DType dtype) {
  TileProgram program{.kind = TileProgram::Kind::rows};
  const int x = program.add(TileProgram::Input{.dtype = dtype});
  const int mask = program.add(TileProgram::Input{.dtype = kFloat32});
  const int wide = program.add(cast(x, kFloat32));
  const int scale = program.add(
      Step{.kind = Step::Kind::number, .dtype = kFloat32, .extent = Extent::row, .number = 3});
  const int scaled = program.add(pointwise(functors::Div{}, {wide, scale}));
  const int masked = program.add(pointwise(functors::Add{}, {scaled, mask}));
  const int highest = program.add(reduce(amax_op, masked));
  const int lowered = program.add(pointwise(functors::Sub{}, {masked, highest}));
  const int e = program.add(pointwise(functors::Exp{}, {lowered}));
  const int total = program.add(reduce(sum_op, e));
  const int share = program.add(pointwise(functors::Div{}, {e, total}));
  program.results = {program.add(cast(share, dtype)), highest};
  return program;
}

TEST(TileProgram, RowsEqualEager) {
  for (DType dtype : {kFloat32, kBFloat16})
    for (const Shape& sizes : {Shape{128, 512}, Shape{3, 5, 7}, Shape{4, 2, 4096}, Shape{70'000, 8},
                               Shape{1, 1}, Shape{5, 40'000}, Shape{2, 70'000}}) {
      const int rank = sizes.size();
      const Tensor x = sample(sizes, dtype), mask = sample({sizes[rank - 1]}, kFloat32, 5);
      expect_as_interpreted(softmax_steps(dtype), {x, mask}, sizes);
      const auto actual = run_program(softmax_steps(dtype), {x, mask}, sizes);
      const Tensor scores = x.to(kFloat32) / 3 + mask;
      expect_identical(actual[1], amax(scores, {-1}, true));
      const Tensor e = exp(scores - amax(scores, {-1}, true));
      EXPECT_TRUE(allclose(actual[0].to(kFloat32), e / sum(e, {-1}, true), 1e-2, 1e-6));
    }
}

TEST(TileProgram, RowOpsAreEagersOwn) {
  TileProgram program{.kind = TileProgram::Kind::rows};
  const int x = program.add(TileProgram::Input{.dtype = kBFloat16});
  const int residual = program.add(TileProgram::Input{.dtype = kBFloat16});
  const int weight = program.add(TileProgram::Input{.dtype = kFloat32});
  const int bias = program.add(TileProgram::Input{.dtype = kFloat32});
  const int sum = program.add(pointwise(functors::Add{}, {x, residual}, kBFloat16, kBFloat16));
  const LayerNormAttrs attrs{{768}, 1e-5};
  const int y = program.add(Step{.kind = Step::Kind::row,
                                 .op = &layer_norm_op,
                                 .attrs = jit::AttrsCopy(layer_norm_op, &attrs),
                                 .operands = {sum, weight, bias},
                                 .dtype = kBFloat16});
  const int mean = program.add(Step{.kind = Step::Kind::part,
                                    .operands = {y},
                                    .dtype = kFloat32,
                                    .extent = Extent::row,
                                    .part = 1});
  const int out = program.add(pointwise(functors::Gelu{}, {y}, kBFloat16, kBFloat16));
  program.results = {out, sum, mean};
  const Tensor a = sample({4, 50, 768}, kBFloat16), b = sample({4, 50, 768}, kBFloat16, 2);
  const Tensor w = sample({768}, kFloat32, 3), c = sample({768}, kFloat32, 4);
  const auto actual = run_program(program, {a, b, w, c}, {4, 50, 768});
  const Tensor total = a + b;
  expect_identical(actual[1], total);
  expect_identical(actual[0], gelu(layer_norm(total, {768}, w, c)));
  expect_identical(actual[2], apply_all(layer_norm_op, {total, w, c}, attrs)[1]);
  // The same by steps, as a code generator sees it.
  const TileProgram steps = jit::expanded(program);
  for (const Step& step : steps.steps) EXPECT_NE(step.kind, Step::Kind::row);
  const auto by_steps = run_program(steps, {a, b, w, c}, {4, 50, 768});
  EXPECT_TRUE(allclose(by_steps[0].to(kFloat32), actual[0].to(kFloat32), 2e-2, 2e-2));
  EXPECT_TRUE(allclose(by_steps[2], actual[2], 1e-5, 1e-6));
}

TEST(TileProgram, ResultsDoNotDependOnThreads) {
  const int before = get_num_threads();
  const Tensor x = sample({300, 1000}), mask = sample({1000}, kFloat32, 5);
  std::vector<Tensor> expected;
  for (int threads : {1, 2, 7}) {
    set_num_threads(threads);
    const auto actual = run_program(softmax_steps(kFloat32), {x, mask}, {300, 1000});
    if (expected.empty()) expected = actual;
    expect_identical(actual[0], expected[0]);
  }
  set_num_threads(before);
}

TEST(TileProgram, CanonicalFormForgetsTheOrderOfRecording) {
  TileProgram a, b;
  for (TileProgram* program : {&a, &b})
    for (int i = 0; i < 2; ++i) program->add(TileProgram::Input{});
  const int e = a.add(pointwise(functors::Exp{}, {0})), t = a.add(pointwise(functors::Tanh{}, {1}));
  a.results = {a.add(pointwise(functors::Mul{}, {e, t}))};
  b.add(pointwise(functors::Relu{}, {0}));  // unused
  const int t2 = b.add(pointwise(functors::Tanh{}, {0}));
  const int e2 = b.add(pointwise(functors::Exp{}, {1}));
  b.results = {b.add(pointwise(functors::Mul{}, {e2, t2}))};
  EXPECT_EQ(key_of(canonical(a).program), key_of(canonical(b).program));
  EXPECT_NE(key_of(canonical(a).program), key_of(canonical(chain(kFloat32)).program));
  const Tensor x = sample({100}), y = sample({100}, kFloat32, 2);
  expect_identical(run_program(a, {x, y}, {100})[0], run_program(b, {y, x}, {100})[0]);
}

TEST(TileProgram, RefusesWhatIsNone) {
  TileProgram program;
  program.add(TileProgram::Input{});
  EXPECT_NE(error_of([&] { validate(program); }).find("no results"), std::string::npos);
  program.results = {program.add(pointwise(functors::Exp{}, {7}))};
  EXPECT_NE(error_of([&] { validate(program); }).find("step %1 (exp): operand 0 is %7"),
            std::string::npos);
  program.steps.back() = reduce(sum_op, 0);
  EXPECT_NE(error_of([&] { validate(program); }).find("in a walk"), std::string::npos);
  const Tensor x = sample({4}, kFloat64);
  EXPECT_NE(error_of([&] {
              run_program(chain(kFloat32), {x, x}, {4});
            }).find("got float64"),
            std::string::npos);
}

TEST(TileProgram, FormsOfOps) {
  const ReduceAttrs last{{-1}, false, {}}, two{{1, 2}, true, {}}, first{{0}, true, {}};
  using Kind = jit::OpForm::Kind;
  EXPECT_EQ(jit::form_of(sum_op, &last, {2, 3, 4}).row_dims, 1);
  EXPECT_EQ(jit::form_of(sum_op, &two, {2, 3, 4}).row_dims, 2);
  EXPECT_EQ(jit::form_of(sum_op, &first, {2, 3, 4}).kind, Kind::columns);
  EXPECT_EQ(jit::form_of(sum_op, &first, {2, 3, 4}).row_dims, 2);
  const SoftmaxAttrs inner{2, {}}, outer{0, {}};
  EXPECT_EQ(jit::form_of(softmax_op, &inner, {2, 3, 4}).kind, Kind::row);
  EXPECT_EQ(jit::form_of(softmax_op, &outer, {2, 3, 4}).kind, Kind::none);
}

}  // namespace
}  // namespace tensora::test
