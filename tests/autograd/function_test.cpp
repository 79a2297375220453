#include <cmath>
#include <memory>

#include "tensora/autograd/function.h"

#include "tests/helpers.h"

namespace tensora::testing {
namespace {

struct Cube : Function<Cube> {
  static Tensor forward(Context& context, const Tensor& x) {
    context.save_for_backward({x});
    return x * x * x;
  }
  static TensorList backward(Context& context, const TensorList& grads) {
    const Tensor x = context.saved_tensors()[0];
    return {grads[0] * x * x * 3};
  }
};

TEST(Function, ForwardAndBackward) {
  const Tensor x = leaf({2, 3});
  const Tensor y = Cube::apply(x);
  EXPECT_EQ(values(y), (Values{8, 27}));
  EXPECT_EQ(y.grad_fn()->name(), "Cube");
  y.sum().backward();
  EXPECT_EQ(values(x.grad()), (Values{12, 27}));
}

TEST(Function, DoubleBackward) {
  const Tensor x = leaf({2});
  const Tensor first = grad(Cube::apply(x), {x}, {.create_graph = true})[0];
  const Tensor second = grad(first, {x}, {.create_graph = true})[0];
  EXPECT_EQ(values(second), (Values{12}));
  EXPECT_EQ(values(grad(second, {x})[0]), (Values{6}));
}

TEST(Function, WithoutGradients) {
  EXPECT_FALSE(Cube::apply(constant({2})).requires_grad());
  const no_grad silent;
  EXPECT_FALSE(Cube::apply(leaf({2})).requires_grad());
}

struct SavesItsOutput : Function<SavesItsOutput> {
  static Tensor forward(Context& context, const Tensor& x) {
    const Tensor y = exp(x);
    context.save_for_backward({y});
    return y;
  }
  static TensorList backward(Context& context, const TensorList& grads) {
    return {grads[0] * context.saved_tensors()[0]};
  }
};

TEST(Function, SavedOutputsAreDifferentiableToo) {
  const Tensor x = leaf({0.5});
  Tensor value = SavesItsOutput::apply(x);
  for (int order = 0; order < 3; ++order) value = grad(value, {x}, {.create_graph = true})[0];
  EXPECT_NEAR(values(value)[0], std::exp(0.5), 1e-12);
}

TEST(Function, SavedOutputsMakeNoCycle) {
  const uint64_t before = memory_stats().allocated;
  {
    const Tensor x = zeros({1 << 16}, {.dtype = kFloat64, .requires_grad = true});
    (void)SavesItsOutput::apply(x);
  }
  EXPECT_EQ(memory_stats().allocated, before);
}

struct Affine : Function<Affine> {
  static TensorList forward(Context& context, const Tensor& x, double factor, const Tensor& shift) {
    context.data["factor"] = factor;
    return {x * factor + shift, x - shift, x > shift};
  }
  static TensorList backward(Context& context, const TensorList& grads) {
    const double factor = std::any_cast<double>(context.data["factor"]);
    TensorList result(3);
    if (context.needs_input_grad(0)) result[0] = grads[0] * factor + grads[1];
    if (context.needs_input_grad(2)) result[2] = grads[0] - grads[1];
    return result;
  }
};

TEST(Function, SeveralInputsAndOutputs) {
  const Tensor x = leaf({1, 2}), shift = leaf({10, 1});
  const TensorList out = Affine::apply(x, 3.0, shift);
  EXPECT_FALSE(out[2].requires_grad());
  (out[0] + out[1] * 100).sum().backward();
  EXPECT_EQ(values(x.grad()), (Values{103, 103}));
  EXPECT_EQ(values(shift.grad()), (Values{-99, -99}));
}

TEST(Function, MissingGradientsAreZero) {
  const Tensor x = leaf({1, 2}), shift = constant({0, 0});
  Affine::apply(x, 3.0, shift)[1].sum().backward();
  EXPECT_EQ(values(x.grad()), (Values{1, 1}));
  EXPECT_FALSE(shift.grad().defined());
}

struct CountsDefined : Function<CountsDefined> {
  static inline int defined = 0;
  static TensorList forward(Context& context, const Tensor& x) {
    context.set_materialize_grads(false);
    return {x * 1, x * 2};
  }
  static TensorList backward(Context&, const TensorList& grads) {
    defined = int{grads[0].defined()} + int{grads[1].defined()};
    return {grads[1] * 2};
  }
};

TEST(Function, MissingGradientsUndefinedOnRequest) {
  const Tensor x = leaf({1});
  CountsDefined::apply(x)[1].backward();
  EXPECT_EQ(CountsDefined::defined, 1);
}

struct WrongCount : Function<WrongCount> {
  static Tensor forward(Context&, const Tensor& x, const Tensor& y) { return x + y; }
  static TensorList backward(Context&, const TensorList& grads) { return {grads[0]}; }
};

TEST(Function, WrongNumberOfGradients) {
  const Tensor x = leaf({1});
  const std::string text = error_of([&] { WrongCount::apply(x, x).backward(); });
  EXPECT_TRUE(contains(text, "WrongCount")) << text;
  EXPECT_TRUE(contains(text, "one gradient per argument")) << text;
}

struct WrongShape : Function<WrongShape> {
  static Tensor forward(Context&, const Tensor& x) { return x * 1; }
  static TensorList backward(Context&, const TensorList&) { return {constant({1, 2, 3})}; }
};

TEST(Function, WrongShapeOfGradients) {
  const Tensor x = leaf({1, 2});
  const std::string text = error_of([&] { WrongShape::apply(x).sum().backward(); });
  EXPECT_TRUE(contains(text, "'WrongShape'")) << text;
}

TEST(Function, SavedTensorsAreVersionCheckedAndFreed) {
  const Tensor x = leaf({1}) * 2;
  const Tensor y = Cube::apply(x);
  x.add_(1);
  EXPECT_TRUE(contains(error_of([&] { y.backward(); }), "'Cube'"));
  const Tensor z = Cube::apply(leaf({1}));
  z.backward();
  EXPECT_TRUE(contains(error_of([&] { z.backward(); }), "retain_graph"));
}

struct Identity : Function<Identity> {
  static Tensor forward(Context&, const Tensor& x) { return x; }
  static TensorList backward(Context&, const TensorList& grads) { return {grads[0] * -1}; }
};

TEST(Function, ReturningAnInputMakesAnAlias) {
  const Tensor x = leaf({1});
  const Tensor y = Identity::apply(x);
  EXPECT_FALSE(y.is_same(x));
  EXPECT_TRUE(y.shares_storage(x));
  EXPECT_TRUE(x.is_leaf());
  y.backward();
  EXPECT_EQ(values(x.grad()), (Values{-1}));
}

struct DoublesInPlace : Function<DoublesInPlace> {
  static Tensor forward(Context& context, const Tensor& x) {
    x.mul_(2);
    context.mark_dirty({x});
    return x;
  }
  static TensorList backward(Context&, const TensorList& grads) { return {grads[0] * 2}; }
};

TEST(Function, DirtyInputs) {
  const Tensor x = leaf({3});
  const Tensor y = x * 1;
  const Tensor z = DoublesInPlace::apply(y);
  EXPECT_TRUE(z.is_same(y));
  EXPECT_EQ(values(y), (Values{6}));
  (y * 5).backward();
  EXPECT_EQ(values(x.grad()), (Values{10}));
  EXPECT_TRUE(contains(error_of([&] { DoublesInPlace::apply(x); }), "leaf"));
}

struct WithMask : Function<WithMask> {
  static TensorList forward(Context& context, const Tensor& x) {
    const Tensor mask = x * 0 + 1;
    context.mark_non_differentiable({mask});
    return {x * 2, mask};
  }
  static TensorList backward(Context&, const TensorList& grads) { return {grads[0] * 2}; }
};

TEST(Function, NonDifferentiableOutputs) {
  const Tensor x = leaf({3});
  const TensorList out = WithMask::apply(x);
  EXPECT_TRUE(out[0].requires_grad());
  EXPECT_FALSE(out[1].requires_grad());
}

// Returns 2 a, and b, which it has multiplied by 3 in place.
struct WritesItsSecondArgument : Function<WritesItsSecondArgument> {
  static TensorList forward(Context& context, const Tensor& a, const Tensor& b) {
    b.mul_(3);
    context.mark_dirty({b});
    return {a * 2, b};
  }
  static TensorList backward(Context&, const TensorList& grads) {
    return {grads[0] * 2, grads[1] * 3};
  }
};

TEST(Function, DirtyArgumentsNeedNotComeFirst) {
  const Tensor x = leaf({1}), y = leaf({2});
  const Tensor a = x * 1, b = y * 1;
  b.retain_grad();
  const TensorList out = WritesItsSecondArgument::apply(a, b);
  (out[0] * 10 + out[1] * 100).backward();
  EXPECT_EQ(values(x.grad()), (Values{20}));
  EXPECT_EQ(values(y.grad()), (Values{300}));
  EXPECT_EQ(values(b.grad()), (Values{100}));
  const Tensor base = y * 1;
  EXPECT_TRUE(contains(error_of([&] { WritesItsSecondArgument::apply(a, base.view({1})); }),
                       "first argument"));
}

struct WeightedSum : Function<WeightedSum> {
  static Tensor forward(Context& context, const TensorList& terms,
                        const std::optional<Tensor>& bias, const std::vector<double>& weights) {
    context.data["weights"] = weights;
    Tensor total = zeros_like(terms[0]);
    for (size_t i = 0; i < terms.size(); ++i) total = total + terms[i] * weights[i];
    return bias ? total + *bias : total;
  }
  static TensorList backward(Context& context, const TensorList& grads) {
    TensorList result;
    for (double weight : std::any_cast<std::vector<double>>(context.data["weights"]))
      result.push_back(grads[0] * weight);
    result.push_back(context.needs_input_grad(result.size()) ? grads[0] : Tensor());
    result.emplace_back();
    return result;
  }
};

TEST(Function, ListsAndOptionalTensorsAreArguments) {
  const Tensor a = leaf({1, 2}), b = leaf({3, 4}), bias = leaf({5, 6});
  const TensorList terms{a, b};
  const std::vector<double> weights{2, 3};
  WeightedSum::apply(terms, std::optional(bias), weights).sum().backward();
  EXPECT_EQ(values(a.grad()), (Values{2, 2}));
  EXPECT_EQ(values(b.grad()), (Values{3, 3}));
  EXPECT_EQ(values(bias.grad()), (Values{1, 1}));
  const Tensor y = WeightedSum::apply(terms, std::optional<Tensor>(), weights);
  EXPECT_EQ(values(y), (Values{11, 16}));
  y.sum().backward();
  EXPECT_EQ(values(a.grad()), (Values{4, 4}));
}

// Tensors where nobody would look for them are refused when the program is compiled.
template <class T>
constexpr bool accepted = detail::FunctionArgument<T>;
static_assert(accepted<const Tensor&> && accepted<TensorList> && accepted<std::optional<Tensor>> &&
              accepted<std::span<const Tensor>> && accepted<std::array<Tensor, 2>&>);
static_assert(accepted<double> && accepted<std::string> && accepted<const char (&)[4]> &&
              accepted<Shape> && accepted<std::vector<std::vector<double>>> &&
              accepted<std::map<std::string, int>> && accepted<std::function<Tensor(Tensor)>> &&
              accepted<Tensor (*)(Tensor)> && accepted<void*>);
static_assert(!accepted<std::vector<TensorList>> && !accepted<std::optional<TensorList>> &&
              !accepted<const Tensor*> && !accepted<std::pair<Tensor, int>> &&
              !accepted<std::tuple<int, TensorList>> && !accepted<std::map<std::string, Tensor>> &&
              !accepted<std::shared_ptr<Tensor>>);

}  // namespace
}  // namespace tensora::testing
