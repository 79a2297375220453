// Registers nothing: functions of other ops.

#include "tensora/ops/matrix/einsum.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>

#include "tensora/core/tensor.h"
#include "tensora/dispatch/autocast_call.h"
#include "tensora/ops/matrix/contraction.h"
#include "tensora/ops/pointwise/functions.h"
#include "tensora/ops/reduce/sum.h"
#include "tensora/ops/shape/diagonal.h"
#include "tensora/ops/shape/permute.h"
#include "tensora/ops/shape/reshape.h"

namespace tensora {
namespace {

// Labels: the letters in the order of PyTorch's implicit results, then the dims of the ellipsis.
constexpr int kLetters = 52;
constexpr int kEllipsis = -1;

int label_of(char letter) { return letter <= 'Z' ? letter - 'A' : letter - 'a' + 26; }
char letter_of(int label) { return static_cast<char>(label < 26 ? 'A' + label : 'a' + label - 26); }
bool is_letter(char letter) {
  return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z');
}

/// The subscripts of each operand, and of the result if the equation states it.
struct Equation {
  std::vector<std::vector<int>> operands;
  std::optional<std::vector<int>> output;
};

/// Reads the subscripts from `at` up to a comma, an arrow or the end.
std::vector<int> read_subscripts(std::string_view text, size_t& at, const std::string& whose) {
  std::vector<int> labels;
  for (; at < text.size() && text[at] != ',' && text[at] != '-'; ++at) {
    if (text[at] == ' ') continue;
    if (text[at] == '.') {
      check(text.substr(at, 3) == "...", "einsum: found '.' for ", whose,
            " that is not part of any ellipsis");
      check(std::find(labels.begin(), labels.end(), kEllipsis) == labels.end(),
            "einsum: found a second ellipsis for ", whose);
      labels.push_back(kEllipsis);
      at += 2;
      continue;
    }
    check(is_letter(text[at]), "einsum: invalid subscript at index ", at, " of the equation '",
          text, "': subscripts must be in [a-zA-Z]");
    labels.push_back(label_of(text[at]));
  }
  return labels;
}

Equation read_equation(std::string_view text) {
  Equation result;
  size_t at = 0;
  while (true) {
    result.operands.push_back(
        read_subscripts(text, at, concat("operand ", result.operands.size())));
    if (at == text.size()) return result;
    if (text[at] == ',') {
      ++at;
      continue;
    }
    check(text.substr(at, 2) == "->", "einsum: invalid subscript at index ", at,
          " of the equation '", text, "': subscripts must be in [a-zA-Z]");
    at += 2;
    result.output = read_subscripts(text, at, "the output");
    check(at == text.size(), "einsum: invalid subscript at index ", at, " of the equation '", text,
          "': the output ends it");
    return result;
  }
}

/// The operands with a label for each dim, and what is known of the labels.
struct Reader {
  std::array<int64_t, kLetters + kMaxDims> sizes = {};
  std::array<int, kLetters + kMaxDims> count = {};  // of occurrences in the equation
  int ellipsis_dims = 0;                            // of the operand that has most
  bool has_ellipsis = false;

  /// Sets a label for each dim, the last dims of the ellipsis at the end of the alphabet.
  std::vector<int> label_dims(const std::vector<int>& subscripts, const Tensor& x, size_t number) {
    const bool open =
        std::find(subscripts.begin(), subscripts.end(), kEllipsis) != subscripts.end();
    const int letters = static_cast<int>(subscripts.size()) - (open ? 1 : 0);
    check(open || letters == x.dim(), "einsum: the number of subscripts in the equation (", letters,
          ") does not match the number of dimensions (", x.dim(), ") for operand ", number,
          " and no ellipsis was given");
    check(letters <= x.dim(), "einsum: the number of subscripts in the equation (", letters,
          ") is more than the number of dimensions (", x.dim(), ") for operand ", number);
    has_ellipsis |= open;
    ellipsis_dims = std::max(ellipsis_dims, x.dim() - letters);
    std::vector<int> labels;
    for (const int subscript : subscripts) {
      if (subscript != kEllipsis) {
        labels.push_back(subscript);
        continue;
      }
      for (int d = x.dim() - letters; d > 0; --d) labels.push_back(kLetters + kMaxDims - d);
    }
    return labels;
  }

  /// Takes diagonals where a label repeats, so that each occurs once.
  Labelled take_diagonals(Tensor x, std::vector<int> labels, size_t number) {
    for (size_t i = 0; i < labels.size(); ++i) {
      for (size_t k = i + 1; k < labels.size();) {
        if (labels[k] != labels[i]) {
          ++k;
          continue;
        }
        const auto first = static_cast<int64_t>(i), second = static_cast<int64_t>(k);
        check(x.size(first) == x.size(second), "einsum: subscript ", letter_of(labels[i]),
              " is repeated for operand ", number, " but the sizes don't match, ", x.size(second),
              " != ", x.size(first));
        x = movedim(diagonal(x, 0, first, second), {-1}, {first});
        labels.erase(labels.begin() + static_cast<std::ptrdiff_t>(k));
      }
    }
    return {x, labels};
  }

  void note_sizes(const Labelled& x, size_t number) {
    for (size_t i = 0; i < x.labels.size(); ++i) {
      const auto label = static_cast<size_t>(x.labels[i]);
      const int64_t size = x.tensor.size(static_cast<int64_t>(i));
      const bool first = count[label]++ == 0;
      if (first || sizes[label] == 1) {
        sizes[label] = size;
        continue;
      }
      const std::string what = x.labels[i] < kLetters
                                   ? concat("subscript ", letter_of(x.labels[i]))
                                   : concat("dimension ", i, ", covered by the ellipsis,");
      check(size == 1 || size == sizes[label], "einsum: ", what, " has size ", size,
            " for operand ", number, " which does not broadcast with previously seen size ",
            sizes[label]);
    }
  }
};

std::vector<int> ellipsis_labels(const Reader& reader) {
  std::vector<int> labels;
  for (int d = reader.ellipsis_dims; d > 0; --d) labels.push_back(kLetters + kMaxDims - d);
  return labels;
}

std::vector<int> output_labels(const Equation& equation, const Reader& reader) {
  if (!equation.output) {
    std::vector<int> labels = ellipsis_labels(reader);
    std::array<int, kLetters> written = {};
    for (const auto& subscripts : equation.operands)
      for (const int label : subscripts)
        if (label != kEllipsis) ++written[static_cast<size_t>(label)];
    for (int label = 0; label < kLetters; ++label)
      if (written[static_cast<size_t>(label)] == 1) labels.push_back(label);
    return labels;
  }
  std::vector<int> labels;
  for (const int label : *equation.output) {
    if (label == kEllipsis) {
      for (const int dim : ellipsis_labels(reader)) labels.push_back(dim);
      continue;
    }
    check(reader.count[static_cast<size_t>(label)] > 0, "einsum: output subscript ",
          letter_of(label), " does not appear in the equation for any input operand");
    check(std::find(labels.begin(), labels.end(), label) == labels.end(),
          "einsum: output subscript ", letter_of(label), " appears more than once in the output");
    labels.push_back(label);
  }
  return labels;
}

/// Drops dims of size 1 that broadcast to a label's size: a missing label broadcasts as well.
Labelled without_repeats(const Labelled& x, const Reader& reader) {
  Labelled result;
  Dims dropped;
  for (size_t i = 0; i < x.labels.size(); ++i) {
    const auto dim = static_cast<int64_t>(i);
    if (x.tensor.size(dim) == 1 && reader.sizes[static_cast<size_t>(x.labels[i])] != 1)
      dropped.push_back(dim);
    else
      result.labels.push_back(x.labels[i]);
  }
  result.tensor = dropped.empty() ? x.tensor : squeeze(x.tensor, dropped);
  return result;
}

}  // namespace

Tensor einsum(std::string_view equation, const std::vector<Tensor>& operands) {
  check(!operands.empty(), "einsum: expected at least one operand");
  for (size_t i = 0; i < operands.size(); ++i) {
    check(operands[i].defined(), "einsum: operand ", i, " is undefined");
    check(is_autocast_enabled() || operands[i].dtype() == operands[0].dtype(),
          "einsum: expected operands of one dtype, got ", operands[0].dtype(), " and ",
          operands[i].dtype());
  }
  // GPUs cast the operands even where nothing is multiplied; the CPU casts each product.
  if (const auto args = args_of(operands);
      effective_policy({Autocast::as_is, Autocast::lower}, args) == Autocast::lower)
    return einsum(equation, AutocastCall("einsum", Autocast::lower, args).tensors());
  const Equation parsed = read_equation(equation);
  check(parsed.operands.size() == operands.size(),
        "einsum: ", parsed.operands.size() > operands.size() ? "fewer" : "more",
        " operands were provided than specified in the equation: ", operands.size(), " for '",
        equation, "'");
  Reader reader;
  std::vector<Labelled> labelled;
  for (size_t i = 0; i < operands.size(); ++i) {
    const auto labels = reader.label_dims(parsed.operands[i], operands[i], i);
    labelled.push_back(reader.take_diagonals(operands[i], labels, i));
    reader.note_sizes(labelled.back(), i);
  }
  for (Labelled& operand : labelled) operand = without_repeats(operand, reader);
  const std::vector<int> output = output_labels(parsed, reader);
  return called_as("einsum", [&]() { return contract(std::move(labelled), output); });
}

Tensor tensordot(const Tensor& input, const Tensor& other, const Dims& dims_self,
                 const Dims& dims_other) {
  check(input.defined() && other.defined(), "tensordot: ", input.defined() ? "other" : "input",
        " is undefined");
  check(dims_self.size() == dims_other.size(),
        "tensordot: both lists of dims should have one length, got ", dims_self, " and ",
        dims_other);
  check(is_autocast_enabled() || input.dtype() == other.dtype(),
        "tensordot: both inputs should have one dtype, got ", input.dtype(), " and ",
        other.dtype());
  if (is_autocast_enabled())
    return autocast_call(
        "tensordot", {Autocast::lower, Autocast::widest},
        [&](const Tensor& a, const Tensor& b) { return tensordot(a, b, dims_self, dims_other); },
        input, other);
  std::vector<int> left(static_cast<size_t>(input.dim())), right(static_cast<size_t>(other.dim()));
  std::iota(left.begin(), left.end(), 0);
  std::iota(right.begin(), right.end(), kMaxDims);
  Dims sum_left, sum_right;
  for (int i = 0; i < dims_self.size(); ++i) {
    const int a = wrap_dim(dims_self[i], input.dim(), "tensordot");
    const int b = wrap_dim(dims_other[i], other.dim(), "tensordot");
    const int64_t n = input.size(a), m = other.size(b);
    check(right[static_cast<size_t>(b)] >= kMaxDims, "tensordot: dim ", b,
          " appears twice in dims_other");
    for (int k = 0; k < i; ++k)
      check(wrap_dim(dims_self[k], input.dim(), "tensordot") != a, "tensordot: dim ", a,
            " appears twice in dims_self");
    check(n == m || n == 1 || m == 1,
          "tensordot: contracted dims need to match, but the first has ", "size ", n, " in dim ",
          dims_self[i], " and the second has size ", m, " in dim ", dims_other[i]);
    right[static_cast<size_t>(b)] = a;
    // A dim of size 1 broadcasts: the other one is summed on its own.
    if (n != m) (n == 1 ? sum_right : sum_left).push_back(n == 1 ? b : a);
  }
  std::vector<int> output;
  for (const int label : left)
    if (std::find(right.begin(), right.end(), label) == right.end()) output.push_back(label);
  for (const int label : right)
    if (label >= kMaxDims) output.push_back(label);
  const Tensor a = sum_left.empty() ? input : sum(input, sum_left, true, input.dtype());
  const Tensor b = sum_right.empty() ? other : sum(other, sum_right, true, other.dtype());
  return called_as("tensordot", [&]() { return contract({{a, left}, {b, right}}, output); });
}

Tensor tensordot(const Tensor& input, const Tensor& other, int64_t dims) {
  check(input.defined() && other.defined(), "tensordot: ", input.defined() ? "other" : "input",
        " is undefined");
  check(dims >= 0, "tensordot: dims must not be negative, got ", dims);
  check(dims <= std::min(input.dim(), other.dim()), "tensordot: dims is ", dims,
        ", but the inputs have the shapes ", input.sizes(), " and ", other.sizes());
  Dims last, first;
  for (int64_t d = 0; d < dims; ++d) {
    last.push_back(d - dims);
    first.push_back(d);
  }
  return tensordot(input, other, last, first);
}

}  // namespace tensora
