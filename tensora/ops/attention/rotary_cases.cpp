#include <cmath>

#include "tensora/ops/attention/rotary.h"
#include "tests/suite/cases.h"

namespace tensora::suite {
namespace {

Array turned(const Array& x, const Array& cos, const Array& sin, bool interleaved) {
  Shape sizes = x.sizes;
  const int last = sizes.size() - 1;
  const int64_t half = cos.sizes.back();
  sizes[last] = half;
  const Array c = cos.broadcast_to(sizes), s = sin.broadcast_to(sizes);
  Array out = x;
  Array::each(sizes, [&](const Shape& index) {
    Shape first = index, second = index;
    first[last] = interleaved ? 2 * index[last] : index[last];
    second[last] = interleaved ? first[last] + 1 : index[last] + half;
    const double a = x.at(first), b = x.at(second);
    out.at(first) = a * c.at(index) - b * s.at(index);
    out.at(second) = b * c.at(index) + a * s.at(index);
  });
  return out;
}

void add(Cases& cases, std::string name, const Shape& query, const Shape& key, const Shape& table,
         bool interleaved, std::optional<DType> table_dtype = {}) {
  cases.add({.op = "rotary",
             .name = std::move(name),
             .inputs = {{query},
                        {key},
                        {.sizes = table, .dtype = table_dtype},
                        {.sizes = table, .dtype = table_dtype}},
             .run =
                 [interleaved](In x) {
                   const auto [q, k] = apply_rotary(x[0], x[1], x[2], x[3], interleaved);
                   return Out{q, k};
                 },
             .reference =
                 [interleaved](Arrays x) {
                   return ArrayList{turned(x[0], x[2], x[3], interleaved),
                                    turned(x[1], x[2], x[3], interleaved)};
                 },
             .tolerance = 4});
}

}  // namespace

void rotary_cases(Cases& cases) {
  for (const bool interleaved : {false, true}) {
    const std::string kind = interleaved ? "interleaved" : "halves";
    add(cases, kind, {2, 3, 5, 16}, {2, 1, 5, 16}, {5, 8}, interleaved);
    add(cases, kind + ", a part of odd size", {2, 3, 7}, {3, 7}, {3, 2}, interleaved);
    add(cases, kind + ", per batch", {2, 3, 2, 8}, {2, 1, 2, 12}, {2, 1, 2, 4}, interleaved,
        kFloat32);
    add(cases, kind + ", no rows", {2, 0, 8}, {2, 0, 8}, {0, 4}, interleaved);
  }
  add(cases, "many rows", {3, 2, 700, 64}, {3, 1, 700, 64}, {700, 32}, false);
  cases.add({.op = "rotary",
             .name = "one tensor at positions of tables",
             .inputs = {{{2, 2, 3, 8}},
                        {{{6, 4}}},
                        {{{6, 4}}},
                        {.sizes = {2, 3}, .dtype = kInt64, .values = {0, 5, 2, 1, 1, 4}}},
             .run =
                 [](In x) {
                   const auto [q, k] = apply_rotary_at(x[0], x[0], x[1], x[2], x[3]);
                   return Out{q, k};
                 },
             .reference =
                 [](Arrays x) {
                   Array c({2, 1, 3, 4}), s({2, 1, 3, 4});
                   Array::each(c.sizes, [&](const Shape& i) {
                     const auto position = int64_t(x[3].at({i[0], i[2]}));
                     c.at(i) = x[1].at({position, i[3]});
                     s.at(i) = x[2].at({position, i[3]});
                   });
                   const Array out = turned(x[0], c, s, false);
                   return ArrayList{out, out};
                 },
             .tolerance = 4});
  cases.add({.op = "rotary",
             .name = "tables, from an offset",
             .inputs = {{{3, 6}}},
             .run =
                 [](In x) {
                   const auto [cos, sin] = rotary_tables(8, 6, 100, {.device = x[0].device()});
                   return one(std::get<0>(apply_rotary_from(x[0], x[0], cos, sin, 2)));
                 },
             .reference =
                 [](Arrays x) {
                   Array c({3, 3}), s({3, 3});
                   Array::each(c.sizes, [&](const Shape& i) {
                     const double angle = double(i[0] + 2) * std::pow(100., -2 * double(i[1]) / 6);
                     c.at(i) = float(std::cos(angle));
                     s.at(i) = float(std::sin(angle));
                   });
                   return one(turned(x[0], c, s, false));
                 },
             .tolerance = 4});
  cases.error("rotary", "too many pairs", "has fewer than the 8 elements per row", [] {
    rotary_embedding(rand({2, 6}), rand({2, 4}), rand({2, 4}));
  });
  cases.error("rotary", "tables of another length", "does not broadcast to query", [] {
    rotary_embedding(rand({2, 6}), rand({3, 3}), rand({3, 3}));
  });
  cases.error("rotary", "beyond the tables", "are not all in the tables", [] {
    const auto [cos, sin] = rotary_tables(4, 6);
    apply_rotary_from(rand({3, 6}), rand({3, 6}), cos, sin, 2);
  });
}

}  // namespace tensora::suite
