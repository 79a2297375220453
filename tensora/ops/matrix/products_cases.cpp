#include "tensora/ops/matrix/products.h"

#include "tests/suite/cases.h"

namespace tensora::suite {
namespace {

Array product(const Array& a, const Array& b) {
  Array out({a.sizes[0], b.sizes[1]});
  Array::each(out.sizes, [&](const Shape& i) {
    for (int64_t k = 0; k < a.sizes[1]; ++k) out.at(i) += a.at({i[0], k}) * b.at({k, i[1]});
  });
  return out;
}

void sum_cases(Cases& cases) {
  for (int64_t batch : {0, 1, 5})
    cases.add({.op = "addbmm",
               .name = concat("batch of ", batch),
               .inputs = {{{3, 4}}, {{batch, 3, 2}}, {{batch, 2, 4}}},
               .run = [](In x) { return one(addbmm(x[0], x[1], x[2], 0.5, 2)); },
               .reference =
                   [](Arrays x) {
                     Array out = x[0];
                     Array::each(out.sizes, [&](const Shape& i) {
                       double sum = 0;
                       for (int64_t b = 0; b < x[1].sizes[0]; ++b)
                         for (int64_t k = 0; k < 2; ++k)
                           sum += x[1].at({b, i[0], k}) * x[2].at({b, k, i[1]});
                       out.at(i) = 0.5 * out.at(i) + 2 * sum;
                     });
                     return one(out);
                   },
               .inplace = [](In x) { addbmm_(x[0], x[1], x[2], 0.5, 2); },
               .tolerance = 4});
  cases.add({.op = "addmv_",
             .name = "in place",
             .inputs = {{{3}}, {{3, 4}}, {{4}}},
             .run = [](In x) { return one(addmv(x[0], x[1], x[2], 0.5, 2)); },
             .reference =
                 [](Arrays x) {
                   Array out = x[0];
                   for (int64_t i = 0; i < 3; ++i) {
                     double sum = 0;
                     for (int64_t k = 0; k < 4; ++k) sum += x[1].at({i, k}) * x[2][k];
                     out[i] = 0.5 * out[i] + 2 * sum;
                   }
                   return one(out);
                 },
             .inplace = [](In x) { addmv_(x[0], x[1], x[2], 0.5, 2); },
             .tolerance = 4});
  cases.add({.op = "addr_",
             .name = "in place",
             .inputs = {{{3, 4}}, {{3}}, {{4}}},
             .run = [](In x) { return one(addr(x[0], x[1], x[2], 0.5, 2)); },
             .reference =
                 [](Arrays x) {
                   Array out = x[0];
                   Array::each(out.sizes, [&](const Shape& i) {
                     out.at(i) = 0.5 * out.at(i) + 2 * x[1][i[0]] * x[2][i[1]];
                   });
                   return one(out);
                 },
             .inplace = [](In x) { addr_(x[0], x[1], x[2], 0.5, 2); },
             .tolerance = 4});
  cases.error("addbmm", "matrices", "expected batches of matrices", [] {
    addbmm(zeros({2, 2}), zeros({2, 2}), zeros({2, 2}));
  });
  cases.error("addbmm", "other sizes", "cannot be multiplied", [] {
    addbmm(zeros({2, 2}), zeros({1, 2, 3}), zeros({1, 2, 2}));
  });
  cases.error("addmv_", "a smaller target", "does not fit", [] {
    addmv_(zeros({1}), zeros({3, 2}), zeros({2}));
  });
  cases.error("addr_", "a smaller target", "does not fit",
              [] { addr_(zeros({1}), zeros({3}), zeros({2})); });
}

void bilinear_cases(Cases& cases) {
  for (const Shape& lead : {Shape{}, Shape{5}, Shape{2, 3}, Shape{0}}) {
    Shape a = lead, b = lead;
    a.push_back(3);
    b.push_back(2);
    cases.add({.op = "bilinear",
               .name = concat(lead),
               .inputs = {{a}, {b}, {{4, 3, 2}}, {{4}}},
               .run = [](In x) { return one(bilinear(x[0], x[1], x[2], x[3])); },
               .reference =
                   [lead](Arrays x) {
                     Shape sizes = lead;
                     sizes.push_back(4);
                     Array out(sizes);
                     for (int64_t row = 0; row < lead.numel(); ++row)
                       for (int64_t k = 0; k < 4; ++k) {
                         double sum = x[3][k];
                         for (int64_t i = 0; i < 3; ++i)
                           for (int64_t j = 0; j < 2; ++j)
                             sum += x[0][row * 3 + i] * x[2].at({k, i, j}) * x[1][row * 2 + j];
                         out[row * 4 + k] = sum;
                       }
                     return one(out);
                   },
               .tolerance = 8});
  }
  cases.error("bilinear", "a weight that does not fit", "does not fit inputs", [] {
    bilinear(zeros({2, 3}), zeros({2, 3}), zeros({4, 3, 2}));
  });
  cases.error("bilinear", "other rows", "differ in dimension 0", [] {
    bilinear(zeros({2, 3}), zeros({3, 2}), zeros({4, 3, 2}));
  });
}

}  // namespace

void products_cases(Cases& cases) {
  sum_cases(cases);
  bilinear_cases(cases);
  cases.add(
      {.op = "chain_matmul",
       .name = "four matrices",
       .inputs = {{{2, 5}}, {{5, 3}}, {{3, 7}}, {{7, 1}}},
       .run =
           [](In x) {
             return one(chain_matmul({x.begin(), x.end()}));
           },
       .reference = [](Arrays x) { return one(product(product(product(x[0], x[1]), x[2]), x[3])); },
       .tolerance = 16});
  cases.error("chain_matmul", "sizes that do not fit", "numbers 0 and 1", [] {
    chain_matmul({zeros({2, 3}), zeros({2, 3})});
  });
  cases.error("chain_matmul", "nothing", "at least one", [] { chain_matmul({}); });
}

}  // namespace tensora::suite
