// What an op's description gives: attributes of all kinds, names of inputs, what is saved.
#include <cmath>
#include <random>

#include "tensora/dispatch/op.h"
#include "tests/helpers.h"

namespace tensora::testing {
namespace {

using NamedValues = std::vector<std::pair<std::string, AttrValue>>;

// ---- attributes -------------------------------------------------------------------------------

enum class Side : uint8_t { left, right };
constexpr std::array<std::string_view, 2> names_of(std::type_identity<Side>) {
  return {"left", "right"};
}

struct AllKinds {
  std::vector<int64_t> ints = {};
  std::vector<double> floats = {};
  std::string text = {};
  std::optional<double> maybe = {};
  Side side = Side::left;
  Scalar number = 1;
  int small = 0;
  std::optional<DType> dtype = {};
  Device device = {};
};
constexpr auto describe(std::type_identity<AllKinds>) {
  using A = AllKinds;
  return fields(field("ints", &A::ints), field("floats", &A::floats), field("text", &A::text),
                field("maybe", &A::maybe), field("side", &A::side), field("number", &A::number),
                field("small", &A::small), field("dtype", &A::dtype), field("device", &A::device));
}

AllKinds last_seen;

constinit OpDef<AllKinds> kinds_op = define(Op<AllKinds>{
    .name = "test_kinds",
    .inputs = {"self"},
    .reference =
        [](Args in, const AllKinds& attrs) {
          last_seen = attrs;
          return Tensors{*in[0] * 1};
        },
    .gradient = Gradient::by_reference,
});

NamedValues listed(const AllKinds& attrs) {
  NamedValues result;
  for (const auto& [name, value] : kinds_op.list_attrs(&attrs)) result.emplace_back(name, value);
  return result;
}

AllKinds rebuilt(const NamedValues& values) {
  AllKinds result;
  kinds_op.with_attrs(kinds_op, values,
                      [&](const void* attrs) { result = *static_cast<const AllKinds*>(attrs); });
  return result;
}

AllKinds unusual() {
  AllKinds a;
  for (int64_t i = 0; i < 20; ++i) a.ints.push_back(i - 10);
  a.floats = {0.5, -HUGE_VAL, std::nan("")};
  a.text = "a text of more than eight letters";
  a.maybe = 2.5;
  a.side = Side::right;
  a.number = true;
  a.small = -7;
  a.dtype = kBFloat16;
  a.device = Device("meta");
  return a;
}

TEST(Attributes, OfAllKindsSurviveTheWayThroughValues) {
  for (const AllKinds& attrs : {AllKinds{}, unusual()}) {
    const AllKinds back = rebuilt(listed(attrs));
    EXPECT_TRUE(attrs_equal(kinds_op, &attrs, &back));
    EXPECT_EQ(attrs_hash(kinds_op, &attrs), attrs_hash(kinds_op, &back));
  }
  EXPECT_EQ(rebuilt(listed(unusual())).number.kind(), Scalar::Kind::boolean);
}

TEST(Attributes, EnumsAreText) {
  const AllKinds attrs = unusual();
  const std::string text = to_string(kinds_op.list_attrs(&attrs));
  EXPECT_TRUE(contains(text, "side=right")) << text;
  EXPECT_TRUE(contains(text, "floats=[0.5, -inf, nan]")) << text;
}

TEST(Attributes, EqualityIsThatOfBits) {
  const auto differ = [](auto&& change) {
    AllKinds a = unusual(), b = unusual();
    change(a, b);
    return !attrs_equal(kinds_op, &a, &b);
  };
  EXPECT_FALSE(differ([](AllKinds&, AllKinds&) {}));  // although there is a NaN
  EXPECT_TRUE(differ([](AllKinds& a, AllKinds&) { a.ints.push_back(0); }));
  EXPECT_TRUE(differ([](AllKinds& a, AllKinds&) { a.floats[0] = 0.25; }));
  EXPECT_TRUE(differ([](AllKinds& a, AllKinds&) { a.text.back() = 'x'; }));
  EXPECT_TRUE(differ([](AllKinds& a, AllKinds&) { a.maybe.reset(); }));
  EXPECT_TRUE(differ([](AllKinds& a, AllKinds&) { a.side = Side::left; }));
  EXPECT_TRUE(differ([](AllKinds& a, AllKinds&) { a.number = 1; }));
  EXPECT_TRUE(differ([](AllKinds& a, AllKinds& b) { a.number = 1, b.number = 1.0; }));
  EXPECT_TRUE(differ([](AllKinds& a, AllKinds& b) { a.maybe = 0.0, b.maybe = -0.0; }));
  // What one list loses and its neighbour gains does not cancel.
  EXPECT_TRUE(differ([](AllKinds& a, AllKinds& b) {
    a.ints = {1}, a.floats = {};
    b.ints = {}, b.floats = {std::bit_cast<double>(int64_t{1})};
  }));
}

TEST(Attributes, OfAGradientOpAreThoseOfItsFunctor) {
  const OpBase& op = *op_registry().find("leaky_relu_backward");
  const NamedValues slope{{"negative_slope", to_attr_value(0.5)}};
  const Tensor inputs[] = {constant({1, 1}), constant({-2, 2})};
  EXPECT_EQ(values(apply_by_name(op.name, inputs, slope, Reach::everything)[0]), (Values{0.5, 1}));
}

TEST(Attributes, WrongValuesAreNamed) {
  const auto message = [](std::string attr, AttrValue value) {
    return error_of([&] { rebuilt({{attr, value}}); });
  };
  EXPECT_EQ(message("ints", to_attr_value(3)),
            "test_kinds: argument 'ints' must be a list of integers, got 3");
  EXPECT_EQ(message("ints", to_attr_value(std::vector{0.5})),
            "test_kinds: argument 'ints' must be a list of integers, got [0.5]");
  EXPECT_EQ(message("floats", to_attr_value("x")),
            "test_kinds: argument 'floats' must be a list of numbers, got 'x'");
  EXPECT_EQ(message("text", {}), "test_kinds: argument 'text' must be a text, got None");
  EXPECT_EQ(message("maybe", to_attr_value("x")),
            "test_kinds: argument 'maybe' must be a number, got 'x'");
  EXPECT_EQ(message("side", to_attr_value("up")),
            "test_kinds: argument 'side' must be one of 'left', 'right', got 'up'");
  EXPECT_EQ(message("side", to_attr_value(1)),
            "test_kinds: argument 'side' must be one of 'left', 'right', got 1");
  EXPECT_EQ(message("small", to_attr_value(int64_t{1} << 40)),
            "test_kinds: argument 'small' must be an integer of 32 bits, got 1099511627776");
  EXPECT_EQ(message("dtype", to_attr_value(255)),
            "test_kinds: argument 'dtype' must be a dtype, got 255");
  EXPECT_TRUE(
      contains(message("dtype", to_attr_value("float12")), "test_kinds: argument 'dtype': "));
  EXPECT_TRUE(
      contains(message("device", to_attr_value("toaster")), "test_kinds: argument 'device': "));
  EXPECT_TRUE(rebuilt({{"floats", to_attr_value(std::vector<int64_t>{1, 2})}}).floats ==
              (std::vector{1.0, 2.0}));
}

// ---- what is saved ----------------------------------------------------------------------------

constexpr size_t kMany = 70;

/// The product of the first and the last of many inputs, each saved for the other.
constinit OpDef<NoAttrs> ends_op = define(Op<NoAttrs>{
    .name = "test_ends",
    .inputs = {"tensors..."},
    .infer = [](Infer& infer, const NoAttrs&) { infer.output(infer[0].sizes(), infer[0].dtype()); },
    .reference = [](Args in, const NoAttrs&) { return Tensors{*in[0] * *in[in.size() - 1]}; },
    .vjp =
        [](Vjp& vjp, const NoAttrs&) {
          const size_t last = vjp.input_count() - 1;
          if (vjp.needs(0)) vjp.set(0, vjp.grad() * vjp.input(last));
          if (vjp.needs(last)) vjp.set(last, vjp.grad() * vjp.input(0));
        },
    .saves = Saves{in_from(1)}.rest(in(0)),
});

TEST(Saves, OfAnyNumberOfInputs) {
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < kMany; ++i) inputs.push_back(leaf({static_cast<double>(i) + 2}));
  apply(ends_op, args_of(inputs)).backward();
  EXPECT_EQ(values(inputs.front().grad()), Values{kMany + 1});
  EXPECT_EQ(values(inputs.back().grad()), Values{2});
}

/// The product of six inputs, whose gradients need one neighbour and the output each.
constinit OpDef<NoAttrs> six_op = define(Op<NoAttrs>{
    .name = "test_six",
    .inputs = {"a", "b", "c", "d", "e", "f"},
    .infer = [](Infer& infer, const NoAttrs&) { infer.output(infer[0].sizes(), infer[0].dtype()); },
    .reference = [](Args in, const NoAttrs&) { return Tensors{*in[0] + *in[5]}; },
    .vjp =
        [](Vjp& vjp, const NoAttrs&) {
          for (size_t i = 0; i < 6; ++i)
            if (vjp.needs(i)) vjp.set(i, vjp.grad() * vjp.input((i + 1) % 6));
        },
    .saves = {in(1), in(2), in(3), in(4), in(5), in(0)},
});

TEST(Saves, OfManyDistinctInputs) {
  std::vector<Tensor> inputs;
  for (int i = 0; i < 6; ++i) inputs.push_back(leaf({i + 10.0}));
  apply(six_op, args_of(inputs)).backward();
  for (size_t i = 0; i < 6; ++i)
    EXPECT_EQ(values(inputs[i].grad()), values(inputs[(i + 1) % 6])) << i;
}

// ---- inputs -----------------------------------------------------------------------------------

TEST(Inputs, UndefinedOnesAreNamed) {
  const Tensor x = constant({1}), none;
  EXPECT_EQ(error_of([&] { add(x, none); }), "add: input 'other' is undefined");
  EXPECT_EQ(error_of([&] { add(none, x); }), "add: input 'self' is undefined");
  EXPECT_EQ(error_of([&] { x.add_(none); }), "add: input 'other' is undefined");
  EXPECT_EQ(error_of([&] { cat({x, none}); }), "cat: input 'tensors' number 1 is undefined");
  EXPECT_EQ(error_of([&] { sum(none); }), "sum: input 'self' is undefined");
  const autocast lower(kBFloat16);
  EXPECT_EQ(error_of([&] { add(x, none); }), "add: input 'other' is undefined");
}

TEST(Inputs, OptionalOnesMayBeLeftOutOrUndefined) {
  const Tensor p = constant({1}), m = constant({0}), v = constant({0}), g = constant({1}), none;
  const NamedValues lr{{"lr", to_attr_value(0.5)}};
  const std::vector<Tensor> four{p, m, v, g}, five{p, m, v, g, none};
  EXPECT_EQ(values(apply_by_name("adam", four, lr)[0]), values(apply_by_name("adam", five, lr)[0]));
}

TEST(Inputs, InternalOpsAreForThoseWhoAsk) {
  const Tensor inputs[] = {constant({5, 6}), tensor({1}, {.dtype = kInt64})};
  const NamedValues attrs{{"sizes", to_attr_value(Shape{2})}, {"keepdim", to_attr_value(true)}};
  EXPECT_TRUE(contains(error_of([&] { apply_by_name("pick", inputs, attrs); }), "internal op"));
  EXPECT_EQ(values(apply_by_name("pick", inputs, attrs, Reach::everything)[0]), Values{6});
}

TEST(Registry, EveryInputHasANameOfItsOwn) {
  for (const OpBase* op : op_registry().all()) {
    EXPECT_TRUE(op->inputs.stated()) << op->name;
    for (size_t i = 0; i < op->inputs.size(); ++i) {
      EXPECT_FALSE(op->inputs[i].empty()) << op->name;
      for (size_t k = 0; k < i; ++k) EXPECT_NE(op->inputs[i], op->inputs[k]) << op->name;
      op->with_attrs(*op, {}, [&](const void* attrs) {
        for (const auto& attr : op->list_attrs(attrs))
          EXPECT_NE(attr.first, op->inputs[i]) << op->name;
      });
    }
  }
}

// A new device needs a kernel for each of these and one loop for all functors. The decompositions
// of linear algebra are primitives too; a device that lacks them still computes everything else.
TEST(Registry, FewOpsArePrimitive) {
  std::string names;
  int count = 0;
  for (const OpBase* op : op_registry().all()) {
    EXPECT_TRUE(op->primitive || op->has_reference || op->view) << op->name;
    if (!op->primitive || op->pointwise) continue;
    names += concat(names.empty() ? "" : ", ", op->name);
    ++count;
  }
  std::printf("%d primitives beside the functors: %s\n", count, names.c_str());
  EXPECT_LT(count, 40) << names;
}

// ---- values that nobody meant -----------------------------------------------------------------

std::vector<AttrValue> nasty_values() {
  std::vector<AttrValue> result{{}, to_attr_value(true), to_attr_value(false)};
  for (int64_t value : {INT64_MIN, INT64_MIN + 1, int64_t{-256}, int64_t{-2}, int64_t{-1},
                        int64_t{0}, int64_t{1}, int64_t{2}, int64_t{3}, int64_t{255},
                        int64_t{1} << 31, int64_t{1} << 32, int64_t{1} << 62, INT64_MAX})
    result.push_back(to_attr_value(value));
  for (double value : {0.0, -0.0, 0.5, -1.5, 1e300, HUGE_VAL, -HUGE_VAL, std::nan("")})
    result.push_back(to_attr_value(value));
  for (std::vector<int64_t> list :
       std::vector<std::vector<int64_t>>{{},
                                         {0},
                                         {1},
                                         {-1},
                                         {2},
                                         {1, 0},
                                         {0, 0},
                                         {2, 3},
                                         {3, -1},
                                         {-1, -1},
                                         {INT64_MAX},
                                         {INT64_MIN},
                                         {int64_t{1} << 32, int64_t{1} << 32},
                                         {int64_t{1} << 62, 4},
                                         {1, 1, 1, 1, 1, 1, 1, 1},
                                         {1, 1, 1, 1, 1, 1, 1, 1, 1},
                                         {0, INT64_MAX, INT64_MAX}})
    result.push_back(to_attr_value(list));
  result.push_back(to_attr_value(std::vector{0.5, HUGE_VAL}));
  for (const char* text : {"", "float32", "uint8", "bool", "cpu", "meta", "wrapped", "refused"})
    result.push_back(to_attr_value(text));
  AttrValue wrong_dtype = to_attr_value(kFloat32);
  wrong_dtype.text = "no dtype";
  result.push_back(wrong_dtype);
  return result;
}

std::vector<std::vector<Tensor>> nasty_inputs() {
  const Tensor none, number = tensor(2.0), wrapped = wrap_number(3);
  const Tensor matrix = rand({2, 3}), bytes = ones({2, 3}, {.dtype = kUInt8});
  const Tensor empty_matrix = zeros({0, 3}), flags = ones({2, 3}, {.dtype = kBool});
  const Tensor places = tensor({1, 0, 1}),
               wild = tensor({int64_t{1} << 40, int64_t{-9}, INT64_MIN});
  const Tensor spread = expand(rand({1, 3}), {2, 3}), cube = rand({2, 2, 2});
  return {{},
          {none},
          {matrix},
          {bytes},
          {number},
          {wrapped},
          {empty_matrix},
          {spread},
          {cube},
          {matrix, matrix},
          {matrix, none},
          {bytes, places},
          {places, wild},
          {matrix, wild},
          {matrix, empty_matrix},
          {number, places},
          {matrix, places, number},
          {places, places, places},
          {places, places, wild},
          {flags, matrix, wrapped},
          {matrix, matrix, matrix, matrix},
          {matrix, matrix, matrix, matrix, tensor({1.f})},
          {matrix, matrix, matrix, matrix, matrix, matrix}};
}

/// Runs an op as a binding would, in place too, and reads what comes out. Whether it came back.
bool call(const OpBase& op, const std::vector<Tensor>& inputs, const NamedValues& attrs,
          bool inplace) {
  try {
    Tensors outputs;
    op.with_attrs(op, attrs, [&](const void* values) {
      if (inplace)
        outputs.push_back(detail::apply_inplace(op, args_of(inputs), values));
      else
        outputs = detail::apply_all(op, args_of(inputs), values);
    });
    const bool unset = op.name == "empty_strided";  // there is nothing to read yet
    for (const Tensor& output : outputs)
      if (output.numel() < 4096 && !output.is_meta() && !unset) (void)to_vector<double>(output);
    return true;
  } catch (const InternalError& error) {
    ADD_FAILURE() << op.name << ": " << error.what();
  } catch (const Error&) {
  }
  return false;
}

/// A few megabytes are more than any honest call here needs.
struct LittleMemory {
  LittleMemory() {
    empty_cache();
    set_memory_limit(Device(), memory_stats().reserved + (uint64_t{8} << 20));
  }
  ~LittleMemory() { set_memory_limit(Device(), 0); }
};

TEST(Fuzz, NoOpCrashesByName) {
  const LittleMemory limit;
  const std::vector<AttrValue> nasty = nasty_values();
  std::mt19937_64 random(7);
  int came_back = 0;
  for (const OpBase* op : op_registry().all()) {
    if (op->internal) continue;  // these trust their arguments
    SCOPED_TRACE(op->name);
    NamedValues defaults;
    op->with_attrs(*op, {}, [&](const void* attrs) {
      for (const auto& [name, value] : op->list_attrs(attrs)) defaults.emplace_back(name, value);
    });
    for (const std::vector<Tensor>& inputs : nasty_inputs()) {
      for (bool inplace : {false, true}) {
        if (inplace && (op->view || inputs.empty())) continue;
        came_back += call(*op, inputs, {}, inplace);
        for (const auto& [name, unused] : defaults)
          for (const AttrValue& value : nasty) call(*op, inputs, {{name, value}}, inplace);
        for (int i = 0; i < 20 && defaults.size() > 1; ++i) {
          NamedValues attrs = defaults;
          for (auto& [name, value] : attrs)
            if (random() % 4 != 0) value = nasty[random() % nasty.size()];
          call(*op, inputs, attrs, inplace);
        }
      }
    }
  }
  EXPECT_GT(came_back, 500);  // not everything is refused
}

TEST(Fuzz, InternalOpsRefuseWrongKindsAndCounts) {
  for (const OpBase* op : op_registry().all()) {
    if (!op->internal) continue;
    EXPECT_FALSE(error_of([&] { apply_by_name(op->name, {}, {}, Reach::everything); }).empty())
        << op->name;
    const std::vector<Tensor> nothing(op->inputs.size());
    EXPECT_TRUE(contains(error_of([&] { apply_by_name(op->name, nothing, {}, Reach::everything); }),
                         "is undefined"))
        << op->name;
  }
}

TEST(ApplyByName, TheCallsThatOnceCrashed) {
  const Tensor ints[] = {ones({3}, {.dtype = kInt32})}, bytes[] = {ones({3}, {.dtype = kUInt8})};
  const Tensor square[] = {zeros({2, 2})};
  EXPECT_EQ(error_of([&] {
              apply_by_name("norm", ints,
                            NamedValues{{"p", to_attr_value(1)}, {"dtype", to_attr_value(-1)}});
            }),
            "norm: argument 'dtype' must be a dtype, got -1");
  EXPECT_EQ(error_of([&] {
              apply_by_name("sum", bytes, NamedValues{{"dtype", to_attr_value(255)}});
            }),
            "sum: argument 'dtype' must be a dtype, got 255");
  EXPECT_EQ(error_of([&] {
              apply_by_name("eye", square, NamedValues{{"columns", to_attr_value(0)}});
            }),
            "eye: columns must be above zero, got 0");
}

}  // namespace
}  // namespace tensora::testing
