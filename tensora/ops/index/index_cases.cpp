#include <algorithm>

#include "tests/suite/cases.h"

namespace tensora::suite {
namespace {

Input positions(const Shape& sizes, std::vector<double> values, DType dtype = kInt64) {
  return {.sizes = sizes, .dtype = dtype, .values = std::move(values)};
}

// result[index] = x[map(index)], where map fills `from`.
using Map = std::function<Shape(const Shape& index, Arrays x)>;

int64_t whole(double value, int64_t size) {
  const auto position = static_cast<int64_t>(value);
  return position < 0 ? position + size : position;
}

struct Sample {
  const char* name;
  std::vector<Input> inputs;
  Shape result;
  std::function<std::vector<TensorIndex>(In)> indices;
  Map map;
  bool is_view = false;
  bool needs_data = false;
};

std::vector<Sample> views() {
  return {
      {"integer",
       {{{3, 4}}},
       {4},
       [](In) { return std::vector<TensorIndex>{-1}; },
       [](const Shape& at, Arrays) {
         return Shape{2, at[0]};
       },
       true},
      {"slice",
       {{{5, 4}}},
       {2, 4},
       [](In) { return std::vector<TensorIndex>{Slice(1, 4, 2)}; },
       [](const Shape& at, Arrays) {
         return Shape{1 + 2 * at[0], at[1]};
       },
       true},
      {"ellipsis and integer",
       {{{2, 3, 4}}},
       {2, 3},
       [](In) {
         return std::vector<TensorIndex>{Ellipsis, 1};
       },
       [](const Shape& at, Arrays) {
         return Shape{at[0], at[1], 1};
       },
       true},
      {"none",
       {{{2, 3}}},
       {2, 1, 3},
       [](In) {
         return std::vector<TensorIndex>{Slice(), None};
       },
       [](const Shape& at, Arrays) {
         return Shape{at[0], at[2]};
       },
       true},
      {"a mix",
       {{{3, 4, 5}}},
       {1, 2, 3},
       [](In) {
         return std::vector<TensorIndex>{None, 2, Slice(1, 3), Slice({}, 3)};
       },
       [](const Shape& at, Arrays) {
         return Shape{2, 1 + at[1], at[2]};
       },
       true},
      {"nothing",
       {{{2, 3}}},
       {2, 3},
       [](In) { return std::vector<TensorIndex>{Ellipsis}; },
       [](const Shape& at, Arrays) { return at; },
       true},
      {"0-dim with none",
       {{{}}},
       {1},
       [](In) { return std::vector<TensorIndex>{None}; },
       [](const Shape&, Arrays) { return Shape{}; },
       true},
  };
}

std::vector<Sample> gathers() {
  return {
      {"rows",
       {{{4, 3}}, positions({3}, {2, 0, 2})},
       {3, 3},
       [](In x) { return std::vector<TensorIndex>{x[1]}; },
       [](const Shape& at, Arrays x) {
         return Shape{whole(x[1][at[0]], 4), at[1]};
       }},
      {"negative",
       {{{4, 3}}, positions({2}, {-1, -4}, kInt32)},
       {2, 3},
       [](In x) { return std::vector<TensorIndex>{x[1]}; },
       [](const Shape& at, Arrays x) {
         return Shape{whole(x[1][at[0]], 4), at[1]};
       }},
      {"columns",
       {{{3, 4}}, positions({2, 2}, {3, 0, 1, 3})},
       {3, 2, 2},
       [](In x) {
         return std::vector<TensorIndex>{Slice(), x[1]};
       },
       [](const Shape& at, Arrays x) {
         return Shape{at[0], whole(x[1].at({at[1], at[2]}), 4)};
       }},
      {"pairs",
       {{{3, 4}}, positions({3}, {0, 2, 2}), positions({3}, {1, 3, 3})},
       {3},
       [](In x) {
         return std::vector<TensorIndex>{x[1], x[2]};
       },
       [](const Shape& at, Arrays x) {
         return Shape{whole(x[1][at[0]], 3), whole(x[2][at[0]], 4)};
       }},
      {"broadcast together",
       {{{3, 4}}, positions({2, 1}, {0, 2}), positions({3}, {1, 3, 0})},
       {2, 3},
       [](In x) {
         return std::vector<TensorIndex>{x[1], x[2]};
       },
       [](const Shape& at, Arrays x) {
         return Shape{whole(x[1][at[0]], 3), whole(x[2][at[1]], 4)};
       }},
      {"neighbours in the middle",
       {{{2, 3, 4, 2}}, positions({2}, {0, 2}), positions({2}, {3, 1})},
       {2, 2, 2},
       [](In x) {
         return std::vector<TensorIndex>{Slice(), x[1], x[2]};
       },
       [](const Shape& at, Arrays x) {
         return Shape{at[0], whole(x[1][at[1]], 3), whole(x[2][at[1]], 4), at[2]};
       }},
      {"apart",
       {{{3, 4, 5}}, positions({2}, {0, 2}), positions({2}, {4, 1})},
       {2, 4},
       [](In x) {
         return std::vector<TensorIndex>{x[1], Slice(), x[2]};
       },
       [](const Shape& at, Arrays x) {
         return Shape{whole(x[1][at[0]], 3), at[1], whole(x[2][at[0]], 5)};
       }},
      {"apart by none",
       {{{3, 4, 5}}, positions({2}, {0, 2}), positions({2}, {4, 1})},
       {2, 3, 1},
       [](In x) {
         return std::vector<TensorIndex>{Slice(), x[1], None, x[2]};
       },
       [](const Shape& at, Arrays x) {
         return Shape{at[1], whole(x[1][at[0]], 4), whole(x[2][at[0]], 5)};
       }},
      {"with an integer between",
       {{{3, 4, 5}}, positions({2}, {0, 2}), positions({2}, {4, 1})},
       {2},
       [](In x) {
         return std::vector<TensorIndex>{x[1], 3, x[2]};
       },
       [](const Shape& at, Arrays x) {
         return Shape{whole(x[1][at[0]], 3), 3, whole(x[2][at[0]], 5)};
       }},
      {"behind an ellipsis",
       {{{2, 3, 4}}, positions({3}, {3, 3, 0})},
       {2, 3, 3},
       [](In x) {
         return std::vector<TensorIndex>{Ellipsis, x[1]};
       },
       [](const Shape& at, Arrays x) {
         return Shape{at[0], at[1], whole(x[1][at[2]], 4)};
       }},
      {"no positions",
       {{{3, 4}}, positions({0}, {})},
       {0, 4},
       [](In x) { return std::vector<TensorIndex>{x[1]}; },
       [](const Shape& at, Arrays) { return at; }},
      {"of an empty tensor",
       {{{3, 0}}, positions({2}, {1, 2})},
       {2, 0},
       [](In x) { return std::vector<TensorIndex>{x[1]}; },
       [](const Shape& at, Arrays) { return at; }},
      {"true",
       {{{2, 3}}},
       {1, 2, 3},
       [](In) { return std::vector<TensorIndex>{true}; },
       [](const Shape& at, Arrays) {
         return Shape{at[1], at[2]};
       },
       false,
       true},
      {"false",
       {{{2, 3}}},
       {0, 2, 3},
       [](In) { return std::vector<TensorIndex>{false}; },
       [](const Shape& at, Arrays) {
         return Shape{at[1], at[2]};
       },
       false,
       true},
      {"0-dim tensor",
       {{{3, 4}}, positions({}, {1})},
       {4},
       [](In x) { return std::vector<TensorIndex>{x[1]}; },
       [](const Shape& at, Arrays) {
         return Shape{1, at[0]};
       },
       true,
       true},
      {"mask of rows",
       {{{3, 2}}, positions({3}, {1, 0, 1}, kBool)},
       {2, 2},
       [](In x) { return std::vector<TensorIndex>{x[1]}; },
       [](const Shape& at, Arrays) {
         return Shape{2 * at[0], at[1]};
       },
       false,
       true},
      {"mask of all",
       {{{2, 3}}, positions({2, 3}, {0, 1, 0, 1, 0, 1}, kBool)},
       {3},
       [](In x) { return std::vector<TensorIndex>{x[1]}; },
       [](const Shape& at, Arrays) {
         const Shape chosen[] = {{0, 1}, {1, 0}, {1, 2}};
         return chosen[at[0]];
       },
       false,
       true},
      {"mask and positions",
       {{{3, 4}}, positions({3}, {0, 1, 1}, kBool), positions({2}, {3, 0})},
       {2},
       [](In x) {
         return std::vector<TensorIndex>{x[1], x[2]};
       },
       [](const Shape& at, Arrays x) {
         return Shape{1 + at[0], whole(x[2][at[0]], 4)};
       },
       false,
       true},
      {"byte mask",
       {{{3, 2}}, positions({3}, {0, 1, 1}, kUInt8)},
       {2, 2},
       [](In x) { return std::vector<TensorIndex>{x[1]}; },
       [](const Shape& at, Arrays) {
         return Shape{1 + at[0], at[1]};
       },
       false,
       true},
  };
}

std::map<Mode, std::string> opt_outs(const Sample& sample) {
  if (!sample.needs_data) return {};
  return {{Mode::meta, "the shape depends on data"}, {Mode::jit, "the shape depends on data"}};
}

void add_reading(Cases& cases, const Sample& sample) {
  cases.add({.op = "index",
             .name = sample.name,
             .inputs = sample.inputs,
             .run = [indices = sample.indices](In x) { return one(index(x[0], indices(x))); },
             .reference =
                 [result_sizes = sample.result, map = sample.map](Arrays x) {
                   Array result(result_sizes);
                   Array::each(result_sizes,
                               [&](const Shape& at) { result.at(at) = x[0].at(map(at, x)); });
                   return one(result);
                 },
             .dtypes = all_dtypes(),
             .opt_out = opt_outs(sample),
             .is_view = sample.is_view});
}

Array with_values(Arrays x, const Sample& sample, bool accumulate) {
  Array result = x[0];
  const Array& values = x.back();
  Array::each(sample.result, [&](const Shape& at) {
    double& place = result.at(sample.map(at, x));
    place = accumulate ? place + values.at(at) : values.at(at);
  });
  return result;
}

void add_writing(Cases& cases, const Sample& sample) {
  Sample with_value = sample;
  with_value.inputs.push_back({sample.result});
  for (const bool accumulate : {false, true}) {
    const auto write = [indices = sample.indices, accumulate](const Tensor& target, In x) {
      index_put_(target, indices(x.first(x.size() - 1)), x.back(), accumulate);
    };
    cases.add({.op = "index_put",
               .name = concat(sample.name, accumulate ? " added" : ""),
               .inputs = with_value.inputs,
               .run =
                   [write](In x) {
                     const Tensor result = x[0].clone();
                     write(result, x);
                     return one(result);
                   },
               .reference = [=](Arrays x) { return one(with_values(x, sample, accumulate)); },
               .inplace = [write](In x) { write(x[0], x); },
               .opt_out = opt_outs(sample)});
  }
}

}  // namespace

void index_cases(Cases& cases) {
  for (const Sample& sample : views()) {
    add_reading(cases, sample);
    add_writing(cases, sample);
  }
  for (const Sample& sample : gathers()) {
    add_reading(cases, sample);
    // Where a place occurs twice, which value stays is decided in the cases of index_copy.
    if (std::string_view(sample.name) != "rows" && std::string_view(sample.name) != "pairs" &&
        std::string_view(sample.name) != "columns" &&
        std::string_view(sample.name) != "behind an ellipsis")
      add_writing(cases, sample);
  }
  cases.add({.op = "index_put",
             .name = "broadcast value",
             .inputs = {{{3, 4}}, positions({2}, {0, 2}), {{1, 1, 4}}},
             .run = [](In x) { return one(x[0].clone().index_put_({x[1]}, x[2])); },
             .reference =
                 [](Arrays x) {
                   Array result = x[0];
                   for (int64_t row : {0, 2})
                     for (int64_t i = 0; i < 4; ++i) result.at({row, i}) = x[2][i];
                   return one(result);
                 }});
}

}  // namespace tensora::suite
