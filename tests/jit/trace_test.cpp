// What tracing promises: a graph does what the function itself would do, on every call.
#include <numeric>

#include "tensora/jit/graph.h"
#include "tensora/jit/lazy.h"
#include "tests/helpers.h"

namespace tensora::test {
namespace {

using ::tensora::testing::constant;
using ::tensora::testing::contains;
using ::tensora::testing::error_of;
using ::tensora::testing::Values;
using ::tensora::testing::values;
using In = std::span<const Tensor>;
using Out = std::vector<Tensor>;

std::vector<Tensor> list(std::initializer_list<Tensor> tensors) { return tensors; }

/// A function that is traced when it is first called.
class Traced {
 public:
  explicit Traced(jit::Function function) : function_(std::move(function)) {}
  Out run(In inputs) const {
    if (!graph_) graph_ = jit::trace(function_, inputs);
    return jit::run(*graph_, inputs);
  }
  template <class... Inputs>
  Tensor operator()(const Inputs&... inputs) const {
    return run(list({inputs...})).at(0);
  }
  size_t nodes() const { return graph_->nodes.size(); }

 private:
  jit::Function function_;
  mutable std::optional<jit::Graph> graph_;
};

void trace(const std::function<Tensor(In)>& function, In inputs) {
  jit::trace([&](In in) { return Out{function(in)}; }, inputs);
}

// ---- which inputs a graph takes
// ------------------------------------------------------------------

TEST(Trace, OneTensorTwiceIsNotTwoTensors) {
  const Traced twice([](In in) { return Out{in[0] * 3 - in[1]}; });
  const Tensor a = constant({1, 2}), b = constant({10, 20});
  EXPECT_EQ(values(twice(a, a)), (Values{2, 4}));
  EXPECT_EQ(values(twice(b, b)), (Values{20, 40}));
  EXPECT_TRUE(contains(error_of([&] { twice(a, b); }), "jit: the graph was traced on inputs"));
  EXPECT_TRUE(contains(error_of([&] { twice(a); }), "jit: the graph has 2 inputs, got 1"));
}

TEST(Trace, WritesShowThroughSharedInputs) {
  const jit::Function function = [](In in) {
    in[0].add_(1);
    return Out{in[1] * 10};
  };
  const Traced apart(function), same(function), part(function);
  for (int call = 0; call < 2; ++call) {
    const Tensor a = constant({1, 2}), b = constant({5, 6});
    EXPECT_EQ(values(apart(a, b)), (Values{50, 60}));
    EXPECT_EQ(values(same(a, a)), (Values{30, 40}));
    EXPECT_EQ(values(a), (Values{3, 4}));
    EXPECT_EQ(values(part(a, a.select(0, 1))), (Values{50}));
  }
  const Tensor whole = constant({1, 2, 3});
  EXPECT_TRUE(
      contains(error_of([&] { Traced{function}(whole.slice(0, 0, 2), whole.slice(0, 1, 3)); }),
               "add_: cannot be traced: input 0 and input 1 share the memory"));
}

TEST(Trace, AutocastIsPartOfTheGraph) {
  const Traced product([](In in) { return Out{mm(in[0], in[1])}; });
  const Tensor x = ones({2, 2});
  {
    const autocast lower(kBFloat16);
    EXPECT_EQ(product(x, x).dtype(), kBFloat16);
  }
  EXPECT_EQ(product(x, x).dtype(), kBFloat16);
}

TEST(Trace, StridesAreThoseOfTheTrace) {
  const jit::Function function = [](In in) {
    const Tensor flat = in[0].reshape({-1});  // a view of some inputs, a copy of others
    flat.mul_(2);
    return Out{in[0] + 0, flat};
  };
  const Tensor x = constant({1, 2, 3, 4}).reshape({2, 2});
  const Traced plain(function);
  EXPECT_EQ(values(plain(x.clone())), (Values{2, 4, 6, 8}));
  EXPECT_EQ(values(Traced{function}(x.clone().transpose(0, 1))), (Values{1, 3, 2, 4}));
  EXPECT_TRUE(contains(error_of([&] { plain(x.transpose(0, 1)); }), "got float64 [2, 2] strides"));
}

TEST(Trace, WhereAnInputLiesInItsStorageIsNot) {
  const Traced function([](In in) { return Out{in[0].transpose(0, 1).select(0, 1) * 2}; });
  const Tensor data = arange(24, {.dtype = kFloat64}).view({4, 2, 3});
  for (int64_t i = 0; i < 4; ++i)
    EXPECT_EQ(values(function(data.select(0, i))),
              (Values{12.0 * double(i) + 2, 12.0 * double(i) + 8}));
}

TEST(Trace, ExceptToAsStrided) {
  const auto strided = [](In in) { return Out{as_strided(in[0], {2}, {1}, 3) * 1}; };
  const Traced function(strided);
  const Tensor data = arange(8, {.dtype = kFloat64});
  EXPECT_EQ(values(function(data.slice(0, 0, 6))), (Values{3, 4}));
  EXPECT_TRUE(contains(error_of([&] { function(data.slice(0, 2, 8)); }), "jit: the graph was"));
  EXPECT_TRUE(
      contains(error_of([&] { Traced{strided}(data.slice(0, 4, 8)); }), "as_strided: cannot be"));
}

TEST(Trace, ATraceIsNotTraced) {
  EXPECT_TRUE(contains(error_of([&] {
                         trace(
                             [](In in) {
                               trace([](In x) { return x[0] + 1; }, in);
                               return in[0];
                             },
                             list({constant({1})}));
                       }),
                       "cannot trace another"));
}

// ---- random numbers
// ------------------------------------------------------------------------------

TEST(Trace, RandomOpsDrawAnew) {
  const auto function = [](In in) {
    const Tensor mask = bernoulli(full_like(in[0], 0.5));
    return Out{in[0] * mask + rand({100}), randn({3}), randperm(10)};
  };
  const Traced traced(function);
  const Tensor x = ones({100});
  manual_seed(5);
  const Out first = traced.run(list({x})), second = traced.run(list({x}));
  EXPECT_NE(values(first[0]), values(second[0]));
  EXPECT_NE(values(first[2]), values(second[2]));
  manual_seed(5);
  for (const Out* run : {&first, &second}) {
    const Out expected = function(list({x}));
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(values((*run)[i]), values(expected[i]));
  }
}

TEST(Trace, RandomOpsDrawFromTheCallersGenerator) {
  const Traced traced([](In) { return Out{rand({4})}; });
  traced.run({});
  Generator generator(9);
  const GeneratorScope scope(generator);
  const Tensor drawn = traced.run({})[0];
  generator.manual_seed(9);
  EXPECT_EQ(values(drawn), values(rand({4})));
}

TEST(Trace, TracingItselfDrawsNothing) {
  manual_seed(3);
  const PhiloxState before = default_generator().state();
  trace([](In in) { return in[0] + rand({2}); }, list({ones({2})}));
  EXPECT_EQ(default_generator().state().offset, before.offset);
}

TEST(Trace, GeneratorsInsideAreRetraced) {
  Generator own(1);
  const Traced scoped([&](In) {
    const GeneratorScope scope(own);
    return Out{rand({2})};
  });
  EXPECT_TRUE(contains(error_of([&] { scoped.run({}); }), "uniform: cannot be traced"));
  const Traced seeded([](In) {
    manual_seed(12345);
    return Out{rand({2})};
  });
  manual_seed(1);
  EXPECT_TRUE(contains(error_of([&] { seeded.run({}); }), "manual_seed"));
}

// ---- writes
// --------------------------------------------------------------------------------------

TEST(Trace, FactoriesAreTraced) {
  const Traced traced([](In in) {
    Tensor sum = zeros({2}, {.dtype = kFloat64});
    sum.add_(in[0]);
    sum.select(0, 1).fill_(9);
    return Out{sum, ones({2}), full({1}, 4.0), arange(3), tensor({1, 2}).add_(1)};
  });
  for (double x : {1.0, 5.0}) {
    const Out out = traced.run(list({constant({x, x})}));
    EXPECT_EQ(values(out[0]), (Values{x, 9}));
    EXPECT_EQ(values(out[1]), (Values{1, 1}));
    EXPECT_EQ(values(out[2]), (Values{4}));
    EXPECT_EQ(values(out[3]), (Values{0, 1, 2}));
    EXPECT_EQ(values(out[4]), (Values{2, 3}));
    for (const Tensor& tensor : out) tensor.fill_(77);  // each call's results are its own
  }
}

TEST(Trace, InputsAreWritten) {
  const Traced traced([](In in) {
    const Tensor row = in[0].select(0, 1);
    row.add_(in[0].select(0, 0));
    in[0].transpose(0, 1).mul_(2);
    return Out{in[0], row, in[0].sum()};
  });
  for (int call = 0; call < 2; ++call) {
    const Tensor x = constant({1, 2, 3, 4}).view({2, 2});
    const uint32_t version = x.version();
    const Out out = traced.run(list({x}));
    EXPECT_EQ(values(x), (Values{2, 4, 8, 12}));
    EXPECT_GT(x.version(), version);
    EXPECT_TRUE(out[0].is_same(x));
    EXPECT_EQ(values(out[1]), (Values{8, 12}));
    EXPECT_TRUE(out[1].shares_storage(x));
    EXPECT_EQ(values(out[2]), (Values{26}));
  }
}

TEST(Trace, WritesKeepTheTargetsDtypeAndLayout) {
  const Traced traced([](In in) {
    in[0].add_(in[1]);
    in[0].transpose(0, 1).copy_(in[0].clone());
    return Out{in[0]};
  });
  const auto make = [] { return tensor({{1, 2}, {3, 4}}).to(kFloat16); };
  const Tensor x = make(), expected = make();
  const Tensor wide = tensor({0.1, 0.2}, {.dtype = kFloat32});
  expected.add_(wide);
  expected.transpose(0, 1).copy_(expected.clone());
  EXPECT_EQ(traced(x, wide).dtype(), kFloat16);
  EXPECT_EQ(values(x), values(expected));
}

TEST(Trace, MistakesInPlaceReadAsInEagerCode) {
  const auto message = [](const std::function<Tensor(In)>& function) {
    return error_of([&] { trace(function, list({constant({1, 2}), tensor({1, 2})})); });
  };
  EXPECT_TRUE(contains(message([](In in) { return in[1].add_(0.5); }), "add_: a result of dtype"));
  EXPECT_TRUE(contains(message([](In in) {
                         return in[0].expand({2, 2}).add_(1);
                       }),
                       "add_: several elements of the tensor share one memory location"));
  EXPECT_TRUE(contains(message([](In in) { return in[0] + zeros({3}); }), "add: "));
}

// ---- captured tensors
// ----------------------------------------------------------------------------

TEST(Trace, CapturedTensorsAreReadWhenCalled) {
  const Tensor weight = constant({1, 2}), other = weight.select(0, 1);
  const Traced traced([&](In in) { return Out{in[0] * weight + other}; });
  EXPECT_EQ(values(traced(constant({1, 1}))), (Values{3, 4}));
  weight.fill_(10);
  EXPECT_EQ(values(traced(constant({1, 1}))), (Values{20, 20}));
}

TEST(Trace, CapturedTensorsAreWrittenWhenCalled) {
  const Tensor count = constant({0});
  const Traced traced([&](In in) {
    count.add_(1);
    return Out{in[0] + count};
  });
  EXPECT_EQ(values(traced(constant({5}))), (Values{6}));
  EXPECT_EQ(values(traced(constant({5}))), (Values{7}));
  EXPECT_EQ(values(count), (Values{2}));
  EXPECT_TRUE(contains(error_of([&] { traced(count); }), "shares its memory with a tensor that"));
  EXPECT_EQ(traced.nodes(), 3u);  // two additions, and the write
}

TEST(Trace, GradientsAreRetraced) {
  const Tensor weight = constant({1, 2}), x = constant({1, 1});
  const Traced traced([&](In in) { return Out{in[0] * weight}; });
  weight.requires_grad_();
  EXPECT_TRUE(contains(error_of([&] { traced(x); }), "captured a tensor of shape [2]"));
  {
    const no_grad silent;
    EXPECT_EQ(values(traced(x)), (Values{1, 2}));
  }
  weight.requires_grad_(false);
  x.requires_grad_();
  EXPECT_TRUE(contains(error_of([&] { traced(x); }), "input 0 requires grad"));
}

// ---- outputs
// -------------------------------------------------------------------------------------

TEST(Trace, OutputsMayBeAnything) {
  const Tensor captured = constant({7});
  const Traced traced([&](In in) {
    const Tensor sum = in[0] + 1;
    return Out{in[0], captured, sum, sum, sum.view({1, 2}), in[0].select(0, 0)};
  });
  const Tensor x = constant({1, 2});
  for (int call = 0; call < 2; ++call) {
    const Out out = traced.run(list({x}));
    EXPECT_TRUE(out[0].is_same(x));
    EXPECT_TRUE(out[1].is_same(captured));
    EXPECT_TRUE(out[2].is_same(out[3]));
    EXPECT_TRUE(out[4].shares_storage(out[2]));
    EXPECT_TRUE(out[5].shares_storage(x));
    EXPECT_TRUE(out[5].is_view());
    EXPECT_EQ(values(out[4]), (Values{2, 3}));
  }
}

TEST(Trace, UndefinedTensorsAreNamed) {
  const Traced traced([](In) { return Out{Tensor()}; });
  EXPECT_TRUE(contains(error_of([&] { traced.run({}); }), "output 0 of the function is undefined"));
  EXPECT_TRUE(contains(error_of([&] { traced(Tensor()); }), "input 0 of the function"));
  EXPECT_TRUE(contains(error_of([] { jit::trace(nullptr, {}); }), "no function"));
}

// ---- what depends on data
// ------------------------------------------------------------------------

TEST(Trace, ValuesCannotBeAskedFor) {
  const Tensor captured = constant({3});
  const auto message = [&](const std::function<Tensor(In)>& function) {
    return error_of([&] { trace(function, list({constant({1, 2})})); });
  };
  EXPECT_TRUE(contains(message([](In in) { return in[0] * in[0].sum().item<double>(); }),
                       "the value of a result of 'sum'"));
  EXPECT_TRUE(contains(message([](In in) { return in[0] * in[0][1].item<double>(); }), "input 0"));
  EXPECT_TRUE(contains(message([&](In in) { return in[0] * captured.item<double>(); }),
                       "a captured tensor"));
  EXPECT_TRUE(contains(message([](In in) { return nonzero(in[0]); }), "'nonzero_count'"));
  EXPECT_TRUE(
      contains(message([](In in) { return masked_select(in[0], in[0] > 1); }), "'nonzero_count'"));
  EXPECT_TRUE(contains(message([](In in) {
                         const Values data = to_vector<double>(in[0]);
                         return in[0] * std::accumulate(data.begin(), data.end(), 0.0);
                       }),
                       "being traced and has no data"));
}

TEST(Trace, TracedTensorsCanBePrinted) {
  std::string text;
  trace(
      [&](In in) {
        text = (in[0] + 1).to_string();
        return in[0] + 1;
      },
      list({constant({1, 2})}));
  EXPECT_TRUE(contains(text, "tensor(...")) << text;
}

TEST(Trace, TracedTensorsThatEscapeAreMeta) {
  Tensor escaped;
  trace(
      [&](In in) {
        escaped = in[0] + 1;
        return escaped * 2;
      },
      list({constant({1, 2})}));
  EXPECT_TRUE(escaped.is_meta());
  EXPECT_TRUE((escaped + 1).is_meta());
  EXPECT_TRUE(escaped.select(0, 1).is_meta());
  EXPECT_TRUE(contains(error_of([&] { escaped.sum().item(); }), "meta tensor"));
  EXPECT_TRUE(contains(error_of([&] { (void)(escaped + constant({1, 2})); }), "one device"));
}

TEST(Trace, AnErrorLeavesTheLibraryUsable) {
  const Traced traced([](In in) {
    check(in[0].size(0) != 2, "two are not wanted");
    return Out{in[0] + 1};
  });
  EXPECT_EQ(error_of([&] { traced(constant({1, 2})); }), "two are not wanted");
  EXPECT_EQ(values(traced(constant({1}))), (Values{2}));
  EXPECT_EQ(values(constant({1, 2}) + 1), (Values{2, 3}));
}

TEST(Trace, GraphsRunInLazyScopes) {
  const Traced traced([](In in) {
    in[0].select(0, 1).mul_(2);
    return Out{(in[0] + 1).relu() * 3};
  });
  for (const double x : {1.0, 4.0}) {
    const Tensor input = constant({x, x});
    Tensor result;
    {
      const LazyScope lazy({.fuse = Fuse::everything});
      result = traced(input);
    }
    EXPECT_EQ(values(result), (Values{3 * (x + 1), 3 * (2 * x + 1)}));
    EXPECT_EQ(values(input), (Values{x, 2 * x}));
  }
}

// ---- devices
// -------------------------------------------------------------------------------------

TEST(Trace, MetaTensorsRun) {
  const Traced traced([](In in) { return Out{tanh(in[0] + 1).sum({0})}; });
  const Tensor result = traced(empty({2, 3}, {.device = DeviceType::meta}));
  EXPECT_TRUE(result.is_meta());
  EXPECT_EQ(to_string(result.sizes()), "[3]");
}

TEST(Trace, UnusedOpsAreDropped) {
  const Traced traced([](In in) {
    exp(in[0]).sum();
    return Out{in[0] + 1};
  });
  EXPECT_EQ(values(traced(constant({1}))), (Values{2}));
  EXPECT_EQ(traced.nodes(), 1u);
}

TEST(Trace, InferenceModeMarksWhatItMakes) {
  const auto function = [](In in) { return Out{tanh(in[0] + 1), in[0].select(0, 0)}; };
  const Traced traced(function);
  const Tensor x = constant({1, 2});
  EXPECT_FALSE(traced(x).is_inference());
  const inference_mode guard;
  const Out actual = traced.run(list({x})), expected = function(list({x}));
  EXPECT_TRUE(actual[0].is_inference());
  for (size_t i = 0; i < actual.size(); ++i)
    EXPECT_EQ(actual[i].is_inference(), expected[i].is_inference()) << i;
}

}  // namespace
}  // namespace tensora::test
