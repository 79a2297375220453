#include "tensora/ops/matrix/einsum.h"

#include "tests/suite/cases.h"

namespace tensora::suite {
namespace {

// "ab,bc->ac" by one loop over all letters. Dims of size 1 broadcast.
Array by_definition(const std::string& equation, Arrays x) {
  const size_t arrow = equation.find("->");
  std::vector<std::string> parts(1);
  for (const char letter : equation.substr(0, arrow)) {
    if (letter == ',')
      parts.emplace_back();
    else
      parts.back() += letter;
  }
  const std::string output = equation.substr(arrow + 2);
  std::map<char, int64_t> sizes;
  for (size_t i = 0; i < parts.size(); ++i)
    for (size_t d = 0; d < parts[i].size(); ++d) {
      int64_t& size = sizes.try_emplace(parts[i][d], 1).first->second;
      if (x[i].sizes[static_cast<int>(d)] != 1) size = x[i].sizes[static_cast<int>(d)];
    }
  std::string letters;
  Shape all, result;
  for (const auto& [letter, size] : sizes) {
    letters += letter;
    all.push_back(size);
  }
  for (const char letter : output) result.push_back(sizes[letter]);
  Array out(result);
  Array::each(all, [&](const Shape& at) {
    const auto place = [&](const std::string& part, const Shape* limit) {
      Shape index;
      for (size_t d = 0; d < part.size(); ++d) {
        const int64_t i = at[static_cast<int>(letters.find(part[d]))];
        index.push_back(limit && (*limit)[static_cast<int>(d)] == 1 ? 0 : i);
      }
      return index;
    };
    double product = 1;
    for (size_t i = 0; i < parts.size(); ++i) product *= x[i].at(place(parts[i], &x[i].sizes));
    out.at(place(output, nullptr)) += product;
  });
  return out;
}

struct Sample {
  const char* equation;
  std::vector<Shape> sizes;
  const char* explicitly = nullptr;  // the same without ellipsis and with an output
};

std::vector<Sample> samples() {
  return {{"ij,jk->ik", {{3, 4}, {4, 5}}},
          {"ij,jk->ki", {{3, 4}, {4, 5}}},
          {"ij,jk", {{3, 4}, {4, 5}}, "ij,jk->ik"},
          {"ba,ca", {{3, 4}, {2, 4}}, "ba,ca->bc"},
          {"bij,bjk->bik", {{2, 3, 4}, {2, 4, 5}}},
          {"bihd,bjhd->bhij", {{2, 3, 2, 4}, {2, 5, 2, 4}}},
          {"ikj,kl->ijl", {{2, 3, 4}, {3, 2}}},
          {"i,j->ij", {{3}, {4}}},
          {"i,i->", {{5}, {5}}},
          {"ij,ij->ij", {{2, 3}, {2, 3}}},
          {"ij,ji->", {{3, 4}, {4, 3}}},
          {"ii->i", {{4, 4}}},
          {"ii", {{4, 4}}, "ii->"},
          {"iji,j->ij", {{3, 2, 3}, {2}}},
          {"ij->ji", {{2, 3}}},
          {"ij->", {{2, 3}}},
          {"...ij,...jk->...ik", {{2, 1, 3, 4}, {5, 4, 2}}, "abij,bjk->abik"},
          {"i...,i...", {{3, 2}, {3, 2}}, "ib,ib->b"},
          {"...i->i", {{2, 3}}, "ai->i"},
          {"ij,jk,kl,lm->im", {{2, 5}, {5, 3}, {3, 4}, {4, 2}}},
          {"ab,bcd,cef,dgh,eg->afh", {{2, 3}, {3, 2, 4}, {2, 2, 3}, {4, 3, 2}, {2, 3}}},
          {"ij,jk->ik", {{3, 1}, {4, 5}}},
          {"ij,ik,il->jkl", {{3, 2}, {3, 2}, {3, 2}}},
          {"ij,jk->ik", {{3, 0}, {0, 2}}},
          {",i->i", {{}, {3}}},
          {"b i j , b j k -> b i k", {{2, 3, 4}, {2, 4, 5}}, "bij,bjk->bik"}};
}

void contractions(Cases& cases) {
  for (const Sample& sample : samples()) {
    std::vector<Input> inputs;
    for (const Shape& sizes : sample.sizes)
      inputs.push_back({.sizes = sizes, .low = -1, .high = 1});
    const std::string meaning = sample.explicitly ? sample.explicitly : sample.equation;
    cases.add({.op = "einsum",
               .name = sample.equation,
               .inputs = inputs,
               .run =
                   [equation = sample.equation](In x) {
                     return one(einsum(equation, {x.begin(), x.end()}));
                   },
               .reference = [meaning](Arrays x) { return one(by_definition(meaning, x)); },
               .tolerance = 8});
  }
  // Nine operands are more than the search over all orders takes.
  const std::string nine = "ab,bc,cd,de,ea,b,c,d,e->ad";
  std::vector<Input> inputs(5, Input{.sizes = {2, 2}, .low = -1, .high = 1});
  inputs.resize(9, Input{.sizes = {2}, .low = -1, .high = 1});
  cases.add({.op = "einsum",
             .name = "nine operands",
             .inputs = inputs,
             .run =
                 [nine](In x) {
                   return one(einsum(nine, {x.begin(), x.end()}));
                 },
             .reference = [nine](Arrays x) { return one(by_definition(nine, x)); },
             .dtypes = {kFloat32, kFloat64},
             .tolerance = 8});
  cases.add({.op = "einsum",
             .name = "integers",
             .inputs = {{{3, 4}}, {{4, 2}}},
             .run =
                 [](In x) {
                   return one(einsum("ij,jk->ik", {x[0], x[1]}));
                 },
             .reference = [](Arrays x) { return one(by_definition("ij,jk->ik", x)); },
             .dtypes = {kInt32, kInt64}});
}

void dots(Cases& cases) {
  const struct {
    const char* meaning;
    Shape a, b;
    Dims dims_self, dims_other;
  } listed[] = {{"ij,jk->ik", {2, 3}, {3, 4}, {1}, {0}},
                {"ijk,jil->kl", {2, 3, 4}, {3, 2, 2}, {0, 1}, {1, 0}},
                {"ij,kl->ijkl", {2, 3}, {2, 2}, {}, {}},
                {"ij,ij->", {2, 3}, {2, 3}, {-2, -1}, {-2, -1}},
                {"ij,jk->ik", {2, 3}, {1, 4}, {1}, {0}}};
  for (const auto& sample : listed)
    cases.add(
        {.op = "tensordot",
         .name = concat(sample.meaning, sample.dims_self, sample.a, sample.b),
         .inputs = {{sample.a}, {sample.b}},
         .run =
             [=](In x) { return one(tensordot(x[0], x[1], sample.dims_self, sample.dims_other)); },
         .reference = [=](Arrays x) { return one(by_definition(sample.meaning, x)); },
         .tolerance = 4});
  cases.add({.op = "tensordot",
             .name = "two dims by default",
             .inputs = {{{2, 3, 4}}, {{3, 4, 2}}},
             .run = [](In x) { return one(tensordot(x[0], x[1])); },
             .reference = [](Arrays x) { return one(by_definition("ijk,jkl->il", x)); },
             .tolerance = 8});
}

void mistakes(Cases& cases) {
  const auto refused = [&](const char* name, const char* message, const char* equation,
                           std::vector<Shape> sizes) {
    cases.error("einsum", name, message, [=] {
      std::vector<Tensor> operands;
      for (const Shape& size : sizes) operands.push_back(zeros(size));
      einsum(equation, operands);
    });
  };
  refused("sizes differ", "subscript j has size 4 for operand 1", "ij,jk", {{2, 3}, {4, 2}});
  refused("no diagonal", "subscript i is repeated for operand 0", "ii", {{2, 3}});
  refused("too few subscripts", "the number of subscripts in the equation (2) does not match", "ij",
          {{2, 3, 4}});
  refused("too many beside an ellipsis", "is more than the number of dimensions (2)", "ij...k",
          {{2, 3}});
  refused("fewer operands", "fewer operands were provided", "ij,jk", {{2, 3}});
  refused("more operands", "more operands were provided", "ij", {{2, 3}, {2, 3}});
  refused("a digit", "invalid subscript at index 1", "i1", {{2, 3}});
  refused("one dot", "not part of any ellipsis", "i.j", {{2, 3}});
  refused("two ellipses", "second ellipsis for operand 0", "i...j...", {{2, 3}});
  refused("unknown output", "output subscript k does not appear", "ij->ik", {{2, 3}});
  refused("output twice", "output subscript i appears more than once", "ij->ii", {{2, 3}});
  refused("half an arrow", "invalid subscript at index 2", "ij-", {{2, 3}});
  refused("two arrows", "invalid subscript at index 5", "ij->i->", {{2, 3}});
  refused("an ellipsis that does not broadcast", "covered by the ellipsis", "...i,...i",
          {{5, 4, 3}, {2, 3}});
  cases.error("einsum", "nothing", "expected at least one operand", [] { einsum("", {}); });
  cases.error("einsum", "two dtypes", "expected operands of one dtype, got float32 and float64",
              [] {
                einsum("i,i", {zeros({2}), zeros({2}, {.dtype = kFloat64})});
              });
  cases.error("tensordot", "sizes differ", "contracted dims need to match", [] {
    tensordot(zeros({2, 3}), zeros({4, 4}), 1);
  });
  cases.error("tensordot", "too many dims", "dims is 3, but", [] {
    tensordot(zeros({2, 3}), zeros({3, 4}), 3);
  });
  cases.error("tensordot", "lists of two lengths", "both lists of dims should have one length", [] {
    tensordot(zeros({2, 3}), zeros({3, 4}), {0}, {0, 1});
  });
  cases.error("tensordot", "a dim twice", "dim 1 appears twice in dims_self", [] {
    tensordot(zeros({2, 3}), zeros({3, 3}), {1, 1}, {0, 1});
  });
}

}  // namespace

void einsum_cases(Cases& cases) {
  contractions(cases);
  dots(cases);
  mistakes(cases);
}

}  // namespace tensora::suite
