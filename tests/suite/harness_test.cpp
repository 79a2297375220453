// The harness must catch what it is there to catch: every mode gets a case that is broken in one
// way.
#include "tests/suite/harness.h"

#include <cmath>
#include <cstring>

#include "tensora/ops/pointwise/all.h"
#include "tests/helpers.h"
#include "tests/suite/samples.h"
#include "tests/suite/tables.h"

namespace tensora::suite {
namespace {

using ::tensora::testing::contains;

Case doubling() {
  return {.op = "double",
          .name = "sample",
          .inputs = {{{3, 4}}},
          .run = [](In x) { return one(x[0] * 2); },
          .reference =
              [](Arrays x) {
                Array result = x[0];
                for (double& value : result.values) value *= 2;
                return one(result);
              },
          .inplace = [](In x) { x[0].mul_(2); }};
}

using CheckMode = void (*)(const Check&);

/// Why a case fails in a mode; empty if it passes.
std::string failure(CheckMode mode, const Case& sample, DType dtype = kFloat64) {
  const Setting setting{.max_threads = 2};
  const UnderTest under_test(setting.device, dtype);
  try {
    mode({sample, dtype, setting});
  } catch (const std::exception& error) {
    return error.what();
  }
  return {};
}

Case running(std::function<Out(In)> run) {
  Case sample = doubling();
  sample.run = std::move(run);
  return sample;
}

TEST(Harness, AcceptsACorrectOp) {
  for (CheckMode mode : {check_value, check_view, check_grad, check_inplace_form, check_determinism,
                         check_meta, check_jit})
    EXPECT_EQ(failure(mode, doubling()), "");
  for (DType dtype : number_dtypes())
    EXPECT_EQ(failure(check_value, doubling(), dtype), "") << name(dtype);
}

TEST(UlpMode, AnotherFormulaIsFound) {
  const auto fails = [] {
    Report report;
    const char* const arguments[] = {"--filter", "hardsigmoid", "--dtype", "float32"};
    check_ulp(parse_options(arguments), {}, report);
    EXPECT_FALSE(report.empty());
    return report.failed();
  };
  EXPECT_FALSE(fails());
  auto& kernel = pointwise_op<functors::Hardsigmoid>().kernels[static_cast<int>(DeviceType::cpu)];
  const auto right = kernel;
  kernel = pointwise_op<functors::Relu6>().kernels[static_cast<int>(DeviceType::cpu)];
  EXPECT_TRUE(fails());
  kernel = right;
}

TEST(ValueMode, WrongNumbers) {
  const std::string text = failure(check_value, running([](In x) {
                                     const Tensor y = x[0] * 2;
                                     y.data_ptr<double>()[5] += 1e-6;
                                     return one(y);
                                   }));
  EXPECT_TRUE(contains(text, "1 of 12 elements differ")) << text;
  EXPECT_TRUE(contains(text, "first at [1, 1]")) << text;
}

TEST(ValueMode, NanAndInfinityCount) {
  for (double bad : {std::nan(""), HUGE_VAL})
    EXPECT_NE(failure(check_value, running([bad](In x) {
                        const Tensor y = x[0] * 2;
                        y.data_ptr<double>()[0] = bad;
                        return one(y);
                      })),
              "");
}

TEST(ValueMode, FreshOutputsAreGuarded) {
  // 12 elements of 8 bytes; the write lands before, or behind them.
  for (auto [at, words] : {std::pair{12, "0 bytes behind the end of a tensor of 96 bytes"},
                           std::pair{-1, "8 bytes before a tensor of 96 bytes"}})
    for (CheckMode mode : {check_value, check_view}) {
      const std::string text = failure(mode, running([at](In x) {
                                         const Tensor y = x[0] * 2;
                                         y.data_ptr<double>()[at] = 1;
                                         return one(y);
                                       }));
      EXPECT_TRUE(contains(text, words)) << text;
    }
  // Scratch that is gone when the op returns, too.
  const std::string text = failure(check_value, running([](In x) {
                                     x[0].exp().data_ptr<double>()[12] = 1;
                                     return one(x[0] * 2);
                                   }));
  EXPECT_TRUE(contains(text, "a kernel wrote outside its memory")) << text;
  EXPECT_EQ(failure(check_value, doubling()), "") << "each damage is told once";
}

TEST(ValueMode, UnwrittenElementsShow) {
  EXPECT_TRUE(contains(failure(check_value, running([](In x) {
                                 const Tensor y = empty_like(x[0]);
                                 y.slice(0, 0, 2).copy_(x[0].slice(0, 0, 2) * 2);
                                 return one(y);
                               })),
                       "nan"));
}

TEST(ValueMode, WrongShapeDtypeOrCount) {
  EXPECT_TRUE(contains(
      failure(check_value, running([](In x) { return one((x[0] * 2).reshape({12})); })), "shape"));
  EXPECT_TRUE(contains(
      failure(check_value, running([](In x) { return one((x[0] * 2).to(kFloat32)); })), "dtype"));
  EXPECT_TRUE(contains(failure(check_value, running([](In x) {
                                 return Out{x[0] * 2, x[0]};
                               })),
                       "outputs"));
}

TEST(ValueMode, InputsMustNotChange) {
  EXPECT_TRUE(contains(failure(check_value, running([](In x) {
                                 const Tensor y = x[0] * 2;
                                 x[0].data_ptr<double>()[3] = 7;
                                 return one(y);
                               })),
                       "input 0 was modified"));
}

TEST(ValueMode, WritingBesideAnInput) {
  for (int64_t beside : {-1, 12})
    EXPECT_TRUE(contains(failure(check_value, running([beside](In x) {
                                   x[0].data_ptr<double>()[beside] = 7;
                                   return one(x[0] * 2);
                                 })),
                         "outside of its elements"));
}

TEST(ValueMode, CasesWithoutReference) {
  Case sample = doubling();
  sample.reference = nullptr;
  EXPECT_TRUE(contains(failure(check_value, sample), "no reference"));
}

TEST(ValueMode, ViewsMustShareStorage) {
  Case sample = doubling();
  sample.run = [](In x) { return one(clone(x[0])); };
  sample.reference = [](Arrays x) { return one(x[0]); };
  sample.is_view = true;
  EXPECT_TRUE(contains(failure(check_value, sample), "share the storage"));
}

TEST(ViewMode, IgnoringStrides) {
  EXPECT_NE(failure(check_view, running([](In x) {
                      const Tensor y = empty(x[0].sizes(), {.dtype = x[0].dtype()});
                      for (int64_t i = 0; i < y.numel(); ++i)
                        y.data_ptr<double>()[i] = 2 * x[0].data_ptr<double>()[i];
                      return one(y);
                    })),
            "");
}

TEST(ViewMode, IgnoringTheExpandedDim) {
  EXPECT_TRUE(contains(failure(check_view, running([](In x) {
                                 const bool expanded = x[0].stride(0) == 0;
                                 return one(x[0] * (expanded ? 3 : 2));
                               })),
                       "expanded"));
}

struct WrongGradient : Function<WrongGradient> {
  static Tensor forward(Context&, const Tensor& x) { return x * 2; }
  static TensorList backward(Context&, const TensorList& grads) { return {grads[0] * 2.001}; }
};
struct NoGradient : Function<NoGradient> {
  static Tensor forward(Context&, const Tensor& x) { return x * 2; }
  static TensorList backward(Context&, const TensorList&) { return {Tensor()}; }
};
struct CubeWithoutSecondOrder : Function<CubeWithoutSecondOrder> {
  static Tensor forward(Context& context, const Tensor& x) {
    context.save_for_backward({x});
    return x * x * x;
  }
  static TensorList backward(Context& context, const TensorList& grads) {
    const Tensor x = context.saved_tensors()[0].detach();
    return {grads[0] * x * x * 3};
  }
};

TEST(GradMode, WrongGradients) {
  const auto first =
      failure(check_grad, running([](In x) { return one(WrongGradient::apply(x[0])); }));
  EXPECT_TRUE(contains(first, "gradient of input 0")) << first;
  const auto none = failure(check_grad, running([](In x) { return one(NoGradient::apply(x[0])); }));
  EXPECT_TRUE(contains(none, "gradient of input 0")) << none;
  const auto silent = failure(check_grad, running([](In x) { return one(x[0].detach() * 2); }));
  EXPECT_TRUE(contains(silent, "gradient of input 0")) << silent;
}

TEST(GradMode, WrongSecondOrder) {
  const auto text =
      failure(check_grad, running([](In x) { return one(CubeWithoutSecondOrder::apply(x[0])); }));
  EXPECT_TRUE(contains(text, "second order")) << text;
}

TEST(InPlaceMode, AnotherResult) {
  Case sample = doubling();
  sample.inplace = [](In x) { x[0].mul_(2.5); };
  EXPECT_TRUE(contains(failure(check_inplace_form, sample), "contiguous"));
}

TEST(InPlaceMode, NoVersionChange) {
  Case sample = doubling();
  sample.inplace = [](In x) {
    if (x[0].requires_grad()) fail("a leaf");
    const Tensor y = x[0] * 2;
    if (x[0].is_contiguous()) std::memcpy(x[0].data_ptr(), y.data_ptr(), y.nbytes());
  };
  EXPECT_TRUE(contains(failure(check_inplace_form, sample), "version"));
}

TEST(InPlaceMode, LeavesMustBeRefused) {
  Case sample = doubling();
  sample.inplace = [](In x) {
    const no_grad silent;
    x[0].mul_(2);
  };
  EXPECT_TRUE(contains(failure(check_inplace_form, sample), "leaf"));
}

TEST(InPlaceMode, WrongGradient) {
  Case sample = doubling();
  sample.inplace = [](In x) {
    if (x[0].is_leaf()) {
      x[0].mul_(2);
      return;
    }
    x[0].mul_(4);
    const no_grad silent;
    x[0].mul_(0.5);
  };
  EXPECT_TRUE(contains(failure(check_inplace_form, sample), "gradient"));
}

TEST(DeterminismMode, SecondRunDiffers) {
  int runs = 0;
  EXPECT_TRUE(contains(failure(check_determinism, running([&](In x) {
                                 return one(x[0] * 2 + (++runs == 2 ? 1e-15 : 0));
                               })),
                       "second run"));
}

TEST(DeterminismMode, ThreadsChangeTheResult) {
  EXPECT_TRUE(contains(
      failure(check_determinism, running([](In x) { return one(x[0] * get_num_threads()); })),
      "with one thread"));
}

TEST(MetaMode, AnotherShapeOrDevice) {
  EXPECT_NE(failure(check_meta, running([](In x) {
                      return one(x[0].is_meta() ? (x[0] * 2).reshape({12}) : x[0] * 2);
                    })),
            "");
  EXPECT_NE(failure(check_meta, running([](In x) { return one(zeros(x[0].sizes())); })), "");
}

std::string mistake(std::function<void()> body) {
  try {
    check_error({"op", "case", "the message", std::move(body)});
  } catch (const Failure& failure) {
    return failure.what();
  }
  return {};
}

TEST(ErrorMode, NeedsTheRightException) {
  EXPECT_EQ(mistake([] { fail("here is the message: 3"); }), "");
  EXPECT_TRUE(contains(mistake([] {}), "nothing was thrown"));
  EXPECT_TRUE(contains(mistake([] { fail("something else"); }), "something else"));
  EXPECT_TRUE(contains(mistake([] { fail_internal("the message"); }), "internal error"));
  EXPECT_TRUE(contains(mistake([] { throw std::runtime_error("the message"); }), "no tensora"));
}

TEST(Options, Parsing) {
  const char* arguments[] = {"--device", "cpu",     "--mode=value,grad", "--filter",
                             "add,s?m*", "--dtype", "float32",           "--seed",
                             "7",        "--quick"};
  const Options options = parse_options(arguments);
  EXPECT_EQ(options.modes, (std::vector{Mode::value, Mode::grad}));
  EXPECT_EQ(options.dtypes, std::vector{kFloat32});
  EXPECT_EQ(options.seed, 7u);
  EXPECT_TRUE(options.quick);
  EXPECT_TRUE(selects(options, "addmm", "") && selects(options, "sum", "over rows"));
  EXPECT_FALSE(selects(options, "mul", "rows"));
  for (const char* wrong : {"--mode", "--nonsense=1", "--mode=x", "--seed=-", "--dtype=float12"})
    EXPECT_THROW(parse_options({&wrong, 1}), Error) << wrong;
}

TEST(Samples, DependOnTheSeedAlone) {
  const Case sample = doubling();
  const Setting zero{}, again{}, other{.seed = 1};
  const auto draw = [&](const Setting& setting) {
    return draw_inputs({sample, kFloat64, setting})[0].values;
  };
  EXPECT_EQ(draw(zero), draw(again));
  EXPECT_NE(draw(zero), draw(other));
}

TEST(JitMode, AFunctionThatLooksAtData) {
  EXPECT_TRUE(contains(
      failure(check_jit, running([](In x) { return one(x[0] * x[0].sum().item<double>()); })),
      "a result of 'sum'"));
}

TEST(JitMode, AnInPlaceFormThatDoesSomethingElse) {
  int calls = 0;
  Case sample = doubling();
  sample.inplace = [&](In x) { x[0].mul_(++calls); };
  EXPECT_TRUE(contains(failure(check_jit, sample), "in place, in a lazy scope"));
}

TEST(GradMode, WithoutAGradientACaseOptsOut) {
  const std::string nothing = failure(check_grad, running([](In x) { return one(argmax(x[0])); }));
  EXPECT_TRUE(contains(nothing, "opt out of grad")) << nothing;
}

TEST(ErrorMode, AMessageMustBeNamed) {
  const auto run = [](const char* message) {
    try {
      check_error({"op", "name", message, [] { fail("anything"); }});
    } catch (const Failure& failure) {
      return std::string(failure.what());
    }
    return std::string();
  };
  EXPECT_TRUE(contains(run(""), "any error would do"));
  EXPECT_EQ(run("anything"), "");
}

}  // namespace
}  // namespace tensora::suite
