// Which op has which rule. See Note [Factors] in shard_rule.h.
#include <algorithm>
#include <array>

#include "tensora/distributed/shard_rule.h"

namespace tensora::distributed {
namespace {

using Rule = std::optional<ShardRule>;

Factors numbered(int count) {
  Factors factors;
  for (int d = 0; d < count; ++d) factors.push_back(d + 1);
  return factors;
}

bool given(const WholeCall& call, size_t i) {
  return i < call.inputs.size() && call.inputs[i]->defined();
}

Rule elementwise(const WholeCall& call) { return rule_of_letters("*->*", call); }

// ---- reductions --------------------------------------------------------------------------------

Rule reduction(const WholeCall& call, std::string_view dim, std::optional<ReduceOp> combined_by) {
  const Tensor& x = *call.inputs[0];
  const AttrReader attrs(call);
  const std::vector<bool> reduced = attrs.dims(dim, x);
  ShardRule rule{.inputs = {numbered(x.dim())}, .combined_by = combined_by};
  const bool keeps = call.outputs[0].sizes.size() == x.dim();
  Factors out;
  for (int d = 0; d < x.dim(); ++d) {
    if (!reduced[static_cast<size_t>(d)])
      out.push_back(d + 1);
    else if (keeps)
      out.push_back(kWhole);
    if (reduced[static_cast<size_t>(d)] && !combined_by)
      rule.inputs[0][static_cast<size_t>(d)] = kWhole;
  }
  rule.outputs.assign(call.outputs.size(), out);
  rule.linear = call.op.name == "sum" && is_floating_point(x.dtype());
  rule.needs_elements = combined_by && *combined_by != ReduceOp::sum;
  return rule;
}
template <ReduceOp op>
Rule combining(const WholeCall& call) {
  return reduction(call, "dim", op);
}
Rule not_combining(const WholeCall& call) { return reduction(call, "dim", {}); }

// The parts of the definition have rules that suit better than one for the whole.
Rule definition(const WholeCall&) { return ShardRule{.by_definition = true}; }

Rule sum_to(const WholeCall& call) {
  Rule rule = rule_of_letters("*->*", call, ReduceOp::sum);
  if (rule) rule->sizes_attr = "size";
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
Rule along_dim(const WholeCall& call) {
  return same_dims(call, AttrReader(call).dims("dim", *call.inputs[0]));
}
Rule along_dims(const WholeCall& call) {
  return same_dims(call, AttrReader(call).dims("dims", *call.inputs[0]));
}
Rule joining(const WholeCall& call) {
  Rule rule = along_dim(call);
  if (rule) rule->linear = true;
  return rule;
}

Rule stack(const WholeCall& call) {
  const Tensor& x = *call.inputs[0];
  int64_t dim = AttrReader(call)["dim"].integer;
  if (dim < 0) dim += x.dim() + 1;
  const Factors in = numbered(x.dim());
  Factors out;
  for (int d = 0; d <= x.dim(); ++d) {
    if (d == dim) out.push_back(kWhole);
    if (d < x.dim()) out.push_back(d + 1);
  }
  return ShardRule{
      .inputs = std::vector<Factors>(call.inputs.size(), in), .outputs = {out}, .linear = true};
}

Rule pad(const WholeCall& call) {
  const AttrReader attrs(call);
  std::vector<bool> padded(attrs["before"].ints.size());
  for (size_t d = 0; d < padded.size(); ++d)
    padded[d] = attrs["before"].ints[d] != 0 || attrs["after"].ints[d] != 0;
  return same_dims(call, padded);
}

// ---- views -------------------------------------------------------------------------------------

// Reads input 0; its dims have the factors 1, 2, …
ShardRule view_of(const WholeCall& call, std::vector<Factors> outputs) {
  return {
      .inputs = {numbered(call.inputs[0]->dim())}, .outputs = std::move(outputs), .linear = true};
}

Rule same_view(const WholeCall& call) {
  const Factors factors = numbered(call.inputs[0]->dim());
  return view_of(call, std::vector<Factors>(call.outputs.size(), factors));
}

Rule permute(const WholeCall& call) {
  Factors out;
  const int dims = call.inputs[0]->dim();
  const AttrReader attrs(call);
  for (const int64_t dim : attrs["dims"].ints)
    out.push_back(static_cast<int>(dim < 0 ? dim + dims : dim) + 1);
  return view_of(call, {out});
}

Rule expand(const WholeCall& call) {
  const Shape &from = call.inputs[0]->sizes(), &to = call.outputs[0].sizes;
  ShardRule rule = view_of(call, {{}});
  const int lead = to.size() - from.size();
  for (int d = 0; d < to.size(); ++d) {
    const bool repeated = d < lead || from[d - lead] != to[d];
    if (d >= lead && repeated) rule.inputs[0][static_cast<size_t>(d - lead)] = kWhole;
    rule.outputs[0].push_back(repeated ? kWhole : d - lead + 1);
  }
  rule.sizes_attr = "size";
  return rule;
}

// A run of dims that becomes a run of other dims stays divided along its first dim if the ranks'
// parts are equally long on both sides.
Rule view(const WholeCall& call) {
  const Shape &from = call.inputs[0]->sizes(), &to = call.outputs[0].sizes;
  ShardRule rule{.outputs = {{}}, .linear = true, .sizes_attr = "size"};
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

Rule slice(const WholeCall& call) {
  Rule rule = same_view(call);
  const int64_t dim = AttrReader(call)["dim"].integer;
  const size_t at = static_cast<size_t>(dim < 0 ? dim + call.inputs[0]->dim() : dim);
  rule->inputs[0][at] = kWhole;
  for (Factors& output : rule->outputs) output[at] = kWhole;
  return rule;
}

// Takes one dim away.
Rule select(const WholeCall& call) {
  const int64_t dim = AttrReader(call)["dim"].integer;
  const int at = static_cast<int>(dim < 0 ? dim + call.inputs[0]->dim() : dim);
  Factors out;
  for (int d = 0; d < call.inputs[0]->dim(); ++d)
    if (d != at) out.push_back(d + 1);
  ShardRule rule = view_of(call, std::vector<Factors>(call.outputs.size(), out));
  rule.inputs[0][static_cast<size_t>(at)] = kWhole;
  return rule;
}

// ---- others ------------------------------------------------------------------------------------

Rule matmul(const WholeCall& call) { return rule_of_letters("*ij,*jk->*ik", call, ReduceOp::sum); }
Rule addmm(const WholeCall& call) {
  return rule_of_letters("+*ik,*ij,*jk->*ik", call, ReduceOp::sum);
}
Rule linear_activation(const WholeCall& call) { return rule_of_letters("i.,k.,k->ik", call); }
Rule linear_group(const WholeCall& call) { return rule_of_letters("i.,..->i.", call); }
Rule triangle(const WholeCall& call) { return rule_of_letters("*..->*..", call); }
Rule pool(const WholeCall& call) {
  Rule rule = rule_of_letters("*...->*...", call);
  if (rule) rule->needs_elements = true;
  return rule;
}
Rule as_pairs(const WholeCall& call) { return rule_of_letters("*->*.", call); }
Rule from_pairs(const WholeCall& call) { return rule_of_letters("*.->*", call); }

// Rows of the last dims, and numbers per element of a row.
Rule row_norm(const WholeCall& call) {
  const size_t dims = AttrReader(call)["normalized_shape"].ints.size();
  const std::string row(dims, '.');
  return rule_of_letters("*" + row + "," + row + "->*" + row, call);
}

Rule embedding(const WholeCall& call) {
  if (AttrReader(call)["scale_grad_by_freq"].integer != 0) return {};
  return rule_of_letters(".e,*->*e", call);
}

Rule convolution(const WholeCall& call) {
  const AttrReader attrs(call);
  const bool plain = attrs["groups"].integer == 1 && attrs["transposed"].integer == 0;
  Rule rule = rule_of_letters(plain ? "nc~,oc~,+o->no~" : "n~,~->n~", call, ReduceOp::sum);
  if (rule) rule->needs_elements = true;
  return rule;
}

Rule attention(const WholeCall& call) {
  const AttrReader attrs(call);
  if (given(call, 4) || given(call, 5) || attrs["dropout_p"].floating != 0) return {};
  const bool grouped = call.inputs[0]->sizes()[1] != call.inputs[1]->sizes()[1];
  if (grouped) return rule_of_letters("b~,b~,b~,b...->b~", call);
  if (attrs["is_causal"].integer != 0) return rule_of_letters("bh~,bh~->bh~", call);
  return rule_of_letters("bhq.,bh..,bh..,bhq.->bhq.,bhq", call);
}

Rule class_loss(const WholeCall& call) {
  if (given(call, 3)) return {};
  return rule_of_letters(call.inputs[0]->dim() == 2 ? "n.,n,.->n" : "n.i,ni,.->ni", call);
}

struct Entry {
  std::string_view op;
  Rule (*rule)(const WholeCall&);
};

constexpr auto kTable = std::to_array<Entry>({
    {"addmm", addmm},
    {"all", not_combining},
    {"amax", combining<ReduceOp::maximum>},
    {"amin", combining<ReduceOp::minimum>},
    {"any", not_combining},
    {"argmax", not_combining},
    {"argmin", not_combining},
    {"attention", attention},
    {"avg_pool", pool},
    {"cast", elementwise},
    {"cat", joining},
    {"clone", elementwise},
    {"constant_pad", pad},
    {"contiguous", elementwise},
    {"convolution", convolution},
    {"copy", elementwise},
    {"count_nonzero", combining<ReduceOp::sum>},
    {"cross_entropy", class_loss},
    {"cummax", along_dim},
    {"cummin", along_dim},
    {"cumprod", along_dim},
    {"cumsum", along_dim},
    {"detach", same_view},
    {"embedding", embedding},
    {"expand", expand},
    {"fill", elementwise},
    {"flip", along_dims},
    {"gather", along_dim},
    {"layer_norm", row_norm},
    {"linear_activation", linear_activation},
    {"linear_group", linear_group},
    {"log_softmax", along_dim},
    {"logcumsumexp", along_dim},
    {"logsumexp", not_combining},
    {"matmul", matmul},
    {"max_dim", not_combining},
    {"max_pool", pool},
    {"mean", definition},
    {"min_dim", not_combining},
    {"nansum", combining<ReduceOp::sum>},
    {"nll_loss", class_loss},
    {"norm", not_combining},
    {"one_hot", as_pairs},
    {"permute", permute},
    {"prod", combining<ReduceOp::product>},
    {"rms_norm", row_norm},
    {"select", select},
    {"slice", slice},
    {"softmax", along_dim},
    {"sort", along_dim},
    {"split", slice},
    {"stack", stack},
    {"std", not_combining},
    {"std_mean", not_combining},
    {"sum", combining<ReduceOp::sum>},
    {"sum_to", sum_to},
    {"topk", along_dim},
    {"tril", triangle},
    {"triu", triangle},
    {"unbind", select},
    {"var", not_combining},
    {"var_mean", not_combining},
    {"view", view},
    {"view_as_complex", from_pairs},
    {"view_as_real", as_pairs},
});

const Entry* entry_of(const OpBase& op) {
  static_assert(std::ranges::is_sorted(kTable, {}, &Entry::op));
  const auto found = std::ranges::lower_bound(kTable, op.name, {}, &Entry::op);
  return found != kTable.end() && found->op == op.name ? &*found : nullptr;
}

// Their gathered inputs would be copies.
constexpr auto kWritesInputs = std::to_array<std::string_view>(
    {"batch_norm_update", "paged_advance", "paged_self_attention", "paged_store"});

constexpr auto kLinearPointwise = std::to_array<std::string_view>({"add", "neg", "sub"});

}  // namespace

bool writes_inputs(const OpBase& op) {
  return std::ranges::find(kWritesInputs, op.name) != kWritesInputs.end();
}

bool has_shard_rule(const OpBase& op) {
  return op.infer && !op.random && (op.pointwise || entry_of(op));
}

std::optional<ShardRule> shard_rule(const WholeCall& call) {
  if (!has_shard_rule(call.op)) return {};
  const Entry* const entry = entry_of(call.op);
  if (entry) return entry->rule(call);
  Rule rule = elementwise(call);
  if (rule)
    rule->linear = std::ranges::find(kLinearPointwise, call.op.name) != kLinearPointwise.end();
  return rule;
}

}  // namespace tensora::distributed
