#include "tensora/distributed/shard_rule.h"

#include <algorithm>
#include <map>

#include "tensora/base/check.h"

namespace tensora::distributed {
namespace {

constexpr int kBatch = 1000;  // the factors of dims that * stands for, counted from the right

/// One operand's letters.
struct Term {
  bool added = false, leading = false, trailing = false;
  std::string_view letters;  // without "+", "*" and "~"
};

Term parsed(std::string_view text) {
  Term term;
  if (text.starts_with('+')) term.added = true, text.remove_prefix(1);
  if (text.starts_with('*')) term.leading = true, text.remove_prefix(1);
  if (text.ends_with('~')) term.trailing = true, text.remove_suffix(1);
  term.letters = text;
  return term;
}

std::vector<Term> parsed_list(std::string_view text) {
  std::vector<Term> terms;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    terms.push_back(parsed(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return terms;
}

/// Gives the dims of a call's operands their factors.
class Binding {
 public:
  // False if the operand has dims that the letters do not describe.
  bool bind(const Term& term, const Shape& sizes, Factors& factors) {
    const int dims = sizes.size(), letters = static_cast<int>(term.letters.size());
    int skipped = 0;  // leading letters of an operand that broadcasts from the right
    if (dims < letters) {
      if (term.trailing) return false;
      skipped = letters - dims;
    }
    const int extra = dims - (letters - skipped);
    if (extra > 0 && !term.leading && !term.trailing) return false;
    for (int d = 0; d < dims; ++d) {
      const int at = term.leading ? d - extra : d;
      int factor = kWhole;
      if (at < 0)
        factor = kBatch + dims - letters - 1 - d;
      else if (at + skipped < letters && term.letters[static_cast<size_t>(at + skipped)] != '.')
        factor = term.letters[static_cast<size_t>(at + skipped)];
      factors.push_back(factor);
      if (factor != kWhole) note(factor, sizes[d]);
    }
    return true;
  }

  // Dims of size 1 that broadcast have no factor; false if sizes differ otherwise.
  bool settle(const Shape& sizes, Factors& factors) const {
    for (int d = 0; d < sizes.size(); ++d) {
      int& factor = factors[static_cast<size_t>(d)];
      if (factor == kWhole || sizes[d] == sizes_.at(factor)) continue;
      if (sizes[d] != 1) return false;
      factor = kWhole;
    }
    return true;
  }

 private:
  void note(int factor, int64_t size) {
    const auto [known, is_new] = sizes_.emplace(factor, size);
    if (!is_new && known->second == 1) known->second = size;
  }

  std::map<int, int64_t> sizes_;
};

}  // namespace

std::optional<ShardRule> rule_of_letters(std::string_view letters, const WholeCall& call,
                                         std::optional<ReduceOp> combined_by) {
  const size_t arrow = letters.find("->");
  ensure(arrow != std::string_view::npos, "a shard rule without an arrow: ", letters);
  const std::vector<Term> in = parsed_list(letters.substr(0, arrow));
  const std::vector<Term> out = parsed_list(letters.substr(arrow + 2));
  ShardRule rule{.combined_by = combined_by};
  Binding binding;
  const auto term_of = [](const std::vector<Term>& terms, size_t i) {
    return terms[std::min(i, terms.size() - 1)];
  };
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const Term term = term_of(in, i);
    rule.added.push_back(term.added);
    rule.inputs.emplace_back();
    const Tensor& input = *call.inputs[i];
    if (input.defined() && !binding.bind(term, input.sizes(), rule.inputs.back())) return {};
  }
  for (size_t i = 0; i < call.outputs.size(); ++i) {
    rule.outputs.emplace_back();
    if (!binding.bind(term_of(out, i), call.outputs[i].sizes, rule.outputs.back())) return {};
  }
  for (size_t i = 0; i < call.inputs.size(); ++i)
    if (call.inputs[i]->defined() && !binding.settle(call.inputs[i]->sizes(), rule.inputs[i]))
      return {};
  for (size_t i = 0; i < call.outputs.size(); ++i)
    if (!binding.settle(call.outputs[i].sizes, rule.outputs[i])) return {};
  return rule;
}

const AttrValue& AttrReader::operator[](std::string_view name) const {
  for (const auto& [known, value] : values_)
    if (known == name) return value;
  throw InternalError(concat("a shard rule asks for an attribute '", name, "' that is not there"));
}

std::vector<bool> AttrReader::dims(std::string_view name, const Tensor& of) const {
  const AttrValue& value = (*this)[name];
  std::vector<bool> named(static_cast<size_t>(of.dim()));
  const auto mark = [&](int64_t dim) {
    if (of.dim() > 0) named[static_cast<size_t>(dim < 0 ? dim + of.dim() : dim)] = true;
  };
  if (value.kind == AttrValue::Kind::integer) {
    mark(value.integer);
  } else if (value.kind == AttrValue::Kind::ints && !value.ints.empty()) {
    std::ranges::for_each(value.ints, mark);
  } else {
    named.assign(named.size(), true);
  }
  return named;
}

}  // namespace tensora::distributed
