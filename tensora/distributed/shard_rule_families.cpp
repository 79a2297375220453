// The families of rules. See Note [Shard rules] in dispatch/sharding.h.
#include <algorithm>
#include <array>

#include "tensora/base/check.h"
#include "tensora/dispatch/sharding.h"
#include "tensora/distributed/shard_rule.h"

// Note [Rules of views]
// An output of a view has its sizes and strides in the storage of the input. A dim of the output
// with the size and the stride of one dim of the input is that dim, as a whole and with step 1, so
// both have one factor. All other dims must be whole: they were cut, merged, or are new. So must
// the one that the attribute `dim` names, since the other attributes say what becomes of it.

namespace tensora::distributed {
namespace {

using Rule = std::optional<ShardRule>;

Factors numbered(int count) {
  Factors factors;
  for (int d = 0; d < count; ++d) factors.push_back(d + 1);
  return factors;
}

/// A family's words: the attribute, and how parts are combined.
struct Words {
  std::string_view attr = {};
  std::optional<ReduceOp> combined_by = {};
};

// ---- reductions --------------------------------------------------------------------------------

Rule reduction(const WholeCall& call, const Words& words) {
  const Tensor& x = *call.inputs[0];
  const AttrReader attrs(call);
  const std::vector<bool> reduced = attrs.dims(words.attr, x);
  ShardRule rule{.inputs = {numbered(x.dim())}, .combined_by = words.combined_by};
  const bool keeps = call.outputs[0].sizes.size() == x.dim();
  Factors out;
  for (int d = 0; d < x.dim(); ++d) {
    if (!reduced[static_cast<size_t>(d)])
      out.push_back(d + 1);
    else if (keeps)
      out.push_back(kWhole);
    if (reduced[static_cast<size_t>(d)] && !words.combined_by)
      rule.inputs[0][static_cast<size_t>(d)] = kWhole;
  }
  rule.outputs.assign(call.outputs.size(), out);
  rule.needs_elements = words.combined_by && *words.combined_by != ReduceOp::sum;
  return rule;
}

// ---- along one dim -----------------------------------------------------------------------------

// All inputs and outputs have the same dims, of which some are whole.
Rule same_dims(const WholeCall& call, const std::vector<bool>& whole) {
  Factors factors = numbered(static_cast<int>(whole.size()));
  for (size_t d = 0; d < whole.size(); ++d)
    if (whole[d]) factors[d] = kWhole;
  ShardRule rule;
  const auto fits = [&](const Shape& sizes) {
    return sizes.size() == static_cast<int>(whole.size());
  };
  for (const Arg& input : call.inputs) {
    if (!input->defined() || !fits(input->sizes())) return {};
    for (int d = 0; d < input->dim(); ++d)
      if (!whole[static_cast<size_t>(d)] && input->sizes()[d] != call.inputs[0]->sizes()[d])
        return {};
    rule.inputs.push_back(factors);
  }
  for (const OutputSpec& output : call.outputs) {
    if (!fits(output.sizes)) return {};
    rule.outputs.push_back(factors);
  }
  return rule;
}
Rule along(const WholeCall& call, const Words& words) {
  return same_dims(call, AttrReader(call).dims(words.attr, *call.inputs[0]));
}

Rule stack(const WholeCall& call, const Words& words) {
  const Tensor& x = *call.inputs[0];
  int64_t dim = AttrReader(call)[words.attr].integer;
  if (dim < 0) dim += x.dim() + 1;
  const Factors in = numbered(x.dim());
  Factors out;
  for (int d = 0; d <= x.dim(); ++d) {
    if (d == dim) out.push_back(kWhole);
    if (d < x.dim()) out.push_back(d + 1);
  }
  return ShardRule{.inputs = std::vector<Factors>(call.inputs.size(), in), .outputs = {out}};
}

Rule pad(const WholeCall& call, const Words&) {
  const AttrReader attrs(call);
  std::vector<bool> padded(attrs["before"].ints.size());
  for (size_t d = 0; d < padded.size(); ++d)
    padded[d] = attrs["before"].ints[d] != 0 || attrs["after"].ints[d] != 0;
  return same_dims(call, padded);
}

// Tensors of rows, which are the last dims, and others of one number per element of a row.
Rule rows(const WholeCall& call, const Words& words) {
  const std::string row(AttrReader(call)[words.attr].ints.size(), '.');
  std::string letters;
  for (const Arg& input : call.inputs) {
    const bool has_rows = input->defined() && input->dim() == call.inputs[0]->dim();
    letters += (letters.empty() ? "" : ",") + (has_rows ? "*" + row : row);
  }
  return rule_of_letters(letters + "->*" + row, call);
}

// ---- views -------------------------------------------------------------------------------------

// The one dim of `strides` and `sizes` that has this stride and size; -1: none or several.
int dim_like(const Shape& sizes, const Strides& strides, int64_t size, int64_t stride) {
  int found = -1;
  for (int d = 0; d < sizes.size(); ++d) {
    if (sizes[d] != size || strides[d] != stride) continue;
    if (found >= 0) return -1;
    found = d;
  }
  return found;
}

// See Note [Rules of views].
Rule view_by_strides(const WholeCall& call, const Words&) {
  const Tensor& x = *call.inputs[0];
  ShardRule rule{.inputs = {numbered(x.dim())}};
  for (const OutputSpec& output : call.outputs) {
    const Strides strides = output.row_major ? contiguous_strides(output.sizes) : output.strides;
    Factors& factors = rule.outputs.emplace_back();
    for (int d = 0; d < output.sizes.size(); ++d) {
      const int64_t size = output.sizes[d], stride = strides[d];
      const int from = dim_like(x.sizes(), x.strides(), size, stride);
      const bool one = size > 1 && from >= 0 && dim_like(output.sizes, strides, size, stride) == d;
      factors.push_back(one ? from + 1 : kWhole);
    }
  }
  for (const auto& [name, value] : call.op.list_attrs(call.attrs))
    if ((name == "dim" || name == "dimension") && x.dim() > 0)
      rule.inputs[0][static_cast<size_t>(wrap_dim(value.integer, x.dim(), call.op.name))] = kWhole;
  for (int& factor : rule.inputs[0])
    for (const Factors& factors : rule.outputs)
      if (std::ranges::find(factors, factor) == factors.end()) factor = kWhole;
  for (Factors& factors : rule.outputs)
    for (int& factor : factors)
      if (std::ranges::find(rule.inputs[0], factor) == rule.inputs[0].end()) factor = kWhole;
  rule.linear = std::ranges::all_of(
      call.outputs, [&](const OutputSpec& output) { return output.dtype == x.dtype(); });
  return rule;
}

Rule expand(const WholeCall& call, const Words&) {
  const Shape &from = call.inputs[0]->sizes(), &to = call.outputs[0].sizes;
  ShardRule rule{.inputs = {numbered(from.size())}, .outputs = {{}}, .linear = true};
  const int lead = to.size() - from.size();
  for (int d = 0; d < to.size(); ++d) {
    const bool repeated = d < lead || from[d - lead] != to[d];
    if (d >= lead && repeated) rule.inputs[0][static_cast<size_t>(d - lead)] = kWhole;
    rule.outputs[0].push_back(repeated ? kWhole : d - lead + 1);
  }
  return rule;
}

// A run of dims that becomes a run of other dims stays divided along its first dim if the ranks'
// parts are equally long on both sides.
Rule view(const WholeCall& call, const Words&) {
  const Shape &from = call.inputs[0]->sizes(), &to = call.outputs[0].sizes;
  ShardRule rule{.outputs = {{}}, .linear = true};
  rule.inputs.emplace_back();
  Factors &in = rule.inputs[0], &out = rule.outputs[0];
  if (from.numel() == 0) return {};
  for (int a = 0, b = 0; a < from.size() || b < to.size();) {
    const int first_a = a, first_b = b;
    int64_t of_a = a < from.size() ? from[a++] : 1, of_b = b < to.size() ? to[b++] : 1;
    while (of_a != of_b) {
      if (of_a < of_b)
        of_a *= from[a++];
      else
        of_b *= to[b++];
    }
    for (int d = first_a; d < a; ++d) in.push_back(kWhole);
    for (int d = first_b; d < b; ++d) out.push_back(kWhole);
    if (first_a == a || first_b == b) continue;
    const int64_t size = from[first_a], becomes = to[first_b];
    const bool even = size % call.ranks == 0 && becomes % call.ranks == 0;
    if (size == becomes || even)
      in[static_cast<size_t>(first_a)] = out[static_cast<size_t>(first_b)] = first_a + 1;
  }
  return rule;
}

// ---- texts -------------------------------------------------------------------------------------

Rule definition(const WholeCall&, const Words&) { return ShardRule{.by_definition = true}; }
Rule none(const WholeCall&, const Words&) { return {}; }

struct Family {
  std::string_view word;
  Rule (*rule)(const WholeCall&, const Words&);
};
constexpr auto kFamilies = std::to_array<Family>({{"along", along},
                                                  {"definition", definition},
                                                  {"expand", expand},
                                                  {"pad", pad},
                                                  {"reduce", reduction},
                                                  {"rows", rows},
                                                  {"stack", stack},
                                                  {"strides", view_by_strides},
                                                  {"view", view},
                                                  {"writes", none}});

// Takes the first word off a text.
std::string_view word_of(std::string_view& text) {
  const size_t end = std::min(text.find(' '), text.size());
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return word;
}

ReduceOp reduce_op(std::string_view word) {
  if (word == "sum") return ReduceOp::sum;
  if (word == "product") return ReduceOp::product;
  if (word == "maximum") return ReduceOp::maximum;
  ensure(word == "minimum", "a shard rule combines parts by '", word, "'");
  return ReduceOp::minimum;
}

Rule rule_of_text(std::string_view text, const WholeCall& call) {
  const std::string_view word = word_of(text);
  Words words{.attr = word_of(text)};
  if (word.find("->") != std::string_view::npos) {
    Rule rule = rule_of_letters(word, call, ReduceOp::sum);
    if (rule) rule->sizes_attr = words.attr;
    return rule;
  }
  const auto family = std::ranges::find(kFamilies, word, &Family::word);
  ensure(family != kFamilies.end(), call.op.name, ": unknown shard rule '", word, "'");
  if (word_of(text) == "by") words.combined_by = reduce_op(text);
  Rule rule = family->rule(call, words);
  const bool sized = word == "view" || word == "expand" || word == "strides";
  if (rule && sized) rule->sizes_attr = words.attr;
  return rule;
}

}  // namespace

bool writes_inputs(const OpBase& op) {
  const ShardEntry* const entry = shard_entry(op);
  return entry && entry->text == "writes";
}

bool has_shard_rule(const OpBase& op) {
  const bool derived = op.pointwise || (op.view && !op.addresses_storage);
  return op.infer && !op.random && (derived || shard_entry(op));
}

std::optional<ShardRule> shard_rule(const WholeCall& call) {
  if (!has_shard_rule(call.op)) return {};
  const ShardEntry* const entry = shard_entry(call.op);
  if (!entry) return call.op.view ? view_by_strides(call, {}) : rule_of_text("*->*", call);
  std::string_view text = entry->of(call.inputs, call.attrs);
  bool linear = false, nonempty = false;
  for (;;) {
    if (text.starts_with("linear ")) {
      linear = true;
    } else if (text.starts_with("nonempty ")) {
      nonempty = true;
    } else {
      break;
    }
    static_cast<void>(word_of(text));
  }
  if (text.empty()) return {};
  Rule rule = rule_of_text(text, call);
  if (!rule) return rule;
  // The sum of integers has another dtype than its parts' sum would be added in.
  rule->linear |= linear && (call.op.pointwise || is_floating_point(call.inputs[0]->dtype()));
  rule->needs_elements |= nonempty;
  return rule;
}

}  // namespace tensora::distributed
