#include <algorithm>
#include <optional>
#include <set>

#include "tensora/base/error_kinds.h"
#include "tensora/io/mapped_file.h"
#include "tensora/onnx/translate.h"
#include "tensora/ops.h"

namespace tensora::onnx {
namespace {

/// A number in each of the traces.
using Profile = std::vector<int64_t>;

bool is_constant(const Profile& profile) {
  return std::all_of(profile.begin(), profile.end(),
                     [&](int64_t value) { return value == profile[0]; });
}

/// The size of a value along one axis.
struct Size {
  std::string value;
  int64_t axis;
  Profile profile;
};

/// factor * (the product of sizes) / divisor + offset.
struct Formula {
  std::vector<size_t> sizes = {};
  int64_t factor = 1, divisor = 1, offset = 0;
};

Profile product(const Profile& a, const Profile& b) {
  Profile result = a;
  for (size_t k = 0; k < a.size(); ++k) result[k] *= b[k];
  return result;
}

// The formula of one size (or product) that gives `wanted` in all traces.
std::optional<Formula> fit(const Profile& wanted, const Profile& size, bool with_offset) {
  const int64_t change = size[1] - size[0];
  if (change != 0 && (wanted[1] - wanted[0]) % change == 0) {
    Formula formula{.factor = (wanted[1] - wanted[0]) / change};
    formula.offset = wanted[0] - formula.factor * size[0];
    bool fits = formula.factor != 0 && (with_offset || formula.offset == 0);
    for (size_t k = 0; k < wanted.size(); ++k)
      fits &= wanted[k] == formula.factor * size[k] + formula.offset;
    if (fits) return formula;
  }
  if (wanted[0] > 0 && size[0] % wanted[0] == 0) {
    Formula formula{.divisor = size[0] / wanted[0]};
    bool fits = formula.divisor > 1;
    for (size_t k = 0; k < wanted.size(); ++k) fits &= wanted[k] * formula.divisor == size[k];
    if (fits) return formula;
  }
  return std::nullopt;
}

class Merge {
 public:
  explicit Merge(std::vector<TracedGraph>& traces) : traces_(traces), graph_(traces[0].graph) {}

  void run() {
    check_nodes();
    compare_constants();
    for (const ValueInfoProto& input : graph_.inputs) add_sizes(input.name);
    std::vector<NodeProto> nodes = std::move(graph_.nodes);
    graph_.nodes.clear();
    for (NodeProto& node : nodes) {
      for (size_t i = 0; i < node.inputs.size(); ++i)
        if (const auto found = varying_.find(node.inputs[i]); found != varying_.end())
          node.inputs[i] = replaced(node, i, found->second);
      graph_.nodes.push_back(std::move(node));
      for (const std::string& output : graph_.nodes.back().outputs) add_sizes(output);
    }
    for (auto& [name, tensor] : graph_.initializers)
      if (const auto found = new_constants_.find(name); found != new_constants_.end())
        tensor = found->second;
    for (auto& [name, tensor] : added_constants_) graph_.initializers.emplace_back(name, tensor);
    note_outputs();
  }

 private:
  void check_nodes() const {
    for (const TracedGraph& other : traces_) {
      const std::vector<NodeProto>&a = graph_.nodes, &b = other.graph.nodes;
      for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
        check(a[i].op_type == b[i].op_type && a[i].inputs == b[i].inputs &&
                  a[i].outputs == b[i].outputs,
              "the function takes other steps with other sizes, from op '", traces_[0].sources[i],
              "' on, which becomes ", a[i].op_type, " or ", b[i].op_type);
        check(same_attributes(a[i], b[i]), "op '", traces_[0].sources[i],
              "' has attributes that depend on the sizes, which ", a[i].op_type, " cannot have");
      }
      check(a.size() == b.size(), "the function takes more steps with some sizes than with others");
    }
  }

  static bool same_contents(const Tensor& a, const Tensor& b) {
    if (a.is_same(b) || (a.shares_storage(b) && a.storage_offset() == b.storage_offset() &&
                         a.sizes() == b.sizes() && a.strides() == b.strides()))
      return a.dtype() == b.dtype();
    if (a.dtype() != b.dtype() || a.sizes() != b.sizes()) return false;
    const Tensor x = io::writable_form(a, "constant"), y = io::writable_form(b, "constant");
    const io::ConstBytes left = io::contents(x), right = io::contents(y);
    return std::equal(left.begin(), left.end(), right.begin(), right.end());
  }
  static bool same_attributes(const NodeProto& a, const NodeProto& b) {
    return std::equal(a.attributes.begin(), a.attributes.end(), b.attributes.begin(),
                      b.attributes.end(), [](const AttributeProto& x, const AttributeProto& y) {
                        if (x.type != AttributeProto::Type::tensor) return x == y;
                        return x.name == y.name && y.t.defined() && same_contents(x.t, y.t);
                      });
  }

  [[noreturn]] void fail_varying(const std::string& name) const {
    const auto reason = traces_[0].reasons.find(name);
    if (reason != traces_[0].reasons.end())
      fail(reason->second, " depends on the sizes in a way for which no formula was found");
    std::string op = "an op";
    for (size_t i = 0; i < graph_.nodes.size() && i < traces_[0].sources.size(); ++i) {
      const Names& inputs = graph_.nodes[i].inputs;
      if (op == "an op" && std::find(inputs.begin(), inputs.end(), name) != inputs.end())
        op = concat("op '", traces_[0].sources[i], "'");
    }
    fail("a number or tensor that ", op,
         " uses depends on the sizes; compute it from tensors, by "
         "ops whose results depend on them");
  }

  void compare_constants() {
    std::set<std::string> used;
    for (const NodeProto& node : graph_.nodes) used.insert(node.inputs.begin(), node.inputs.end());
    for (const auto& [name, tensor] : graph_.initializers) {
      if (!used.contains(name)) continue;
      std::vector<Tensor> all;  // in each of the traces
      bool same = true, same_shape = true;
      for (const TracedGraph& trace : traces_) {
        all.push_back(constant_of(trace, name));
        same = same && same_contents(tensor, all.back());
        same_shape = same_shape && tensor.sizes() == all.back().sizes();
      }
      if (same) continue;
      if (!same_shape || tensor.dtype() != kInt64 || tensor.dim() > 1) fail_varying(name);
      std::vector<Profile> profiles(static_cast<size_t>(tensor.numel()));
      for (const Tensor& values : all) {
        const Tensor flat = io::writable_form(values, name);
        for (size_t k = 0; k < profiles.size(); ++k)
          profiles[k].push_back(flat.data_ptr<int64_t>()[k]);
      }
      varying_[name] = std::move(profiles);
    }
  }

  // Graphs of the same nodes have the same names.
  static const Tensor& constant_of(const TracedGraph& trace, const std::string& name) {
    for (const auto& [known, tensor] : trace.graph.initializers)
      if (known == name) return tensor;
    fail("the function uses other constants with other sizes");
  }

  std::optional<std::vector<Profile>> sizes_of(const std::string& value) const {
    std::vector<Profile> result;
    for (const TracedGraph& trace : traces_) {
      const auto found = trace.values.find(value);
      if (found == trace.values.end()) return std::nullopt;
      const Shape& sizes = found->second.sizes;
      result.resize(static_cast<size_t>(sizes.size()));
      for (int d = 0; d < sizes.size(); ++d) result[static_cast<size_t>(d)].push_back(sizes[d]);
    }
    return result;
  }

  void add_sizes(const std::string& value) {
    const auto dims = sizes_of(value);
    for (size_t d = 0; dims && d < dims->size(); ++d) {
      const Profile& profile = (*dims)[d];
      const bool known = std::any_of(sizes_.begin(), sizes_.end(),
                                     [&](const Size& size) { return size.profile == profile; });
      if (!known && !is_constant(profile))
        sizes_.push_back({value, static_cast<int64_t>(d), profile});
    }
  }

  std::optional<Formula> formula_of(const Profile& wanted) const {
    std::optional<Formula> best;
    const auto consider = [&](std::vector<size_t> sizes, const Profile& base, bool with_offset) {
      std::optional<Formula> found = fit(wanted, base, with_offset);
      if (!found || (best && std::abs(best->offset) <= std::abs(found->offset))) return;
      found->sizes = std::move(sizes);
      best = std::move(found);
    };
    for (size_t i = 0; i < sizes_.size(); ++i) consider({i}, sizes_[i].profile, true);
    if (best && best->offset == 0) return best;
    constexpr size_t kMostPairs = 48, kMostTriples = 12;
    for (size_t i = 0; i < std::min(sizes_.size(), kMostPairs); ++i)
      for (size_t j = 0; j <= i; ++j) {
        const Profile pair = product(sizes_[i].profile, sizes_[j].profile);
        consider({i, j}, pair, false);
        for (size_t k = 0; i < kMostTriples && k <= j; ++k)
          consider({i, j, k}, product(pair, sizes_[k].profile), false);
      }
    return best;
  }

  // ---- what replaces a constant ----------------------------------------------------------------

  std::string replaced(const NodeProto& node, size_t input, const std::vector<Profile>& profiles) {
    std::string name = node.inputs[input];
    std::vector<std::optional<int64_t>> fixed(profiles.size());
    for (size_t i = 0; i < profiles.size(); ++i)
      if (is_constant(profiles[i])) fixed[i] = profiles[i][0];
    if (node.op_type == "Reshape" && input == 1 && !node.find("allowzero"))
      shorten_reshape(node, profiles, fixed);
    if (node.op_type == "Expand" && input == 1) shorten_expand(node, profiles, fixed);
    if (std::all_of(fixed.begin(), fixed.end(),
                    [](const auto& size) { return size.has_value(); })) {
      std::vector<int64_t> values;
      for (const auto& size : fixed) values.push_back(*size);
      new_constants_[name] = tensor(values, {.dtype = kInt64});
      return name;
    }
    Names parts;
    for (size_t i = 0; i < profiles.size(); ++i) {
      if (fixed[i]) {
        parts.push_back(constant({*fixed[i]}));
        continue;
      }
      const auto formula = formula_of(profiles[i]);
      if (!formula) fail_varying(name);
      parts.push_back(written(*formula));
    }
    const bool is_list = traces_[0].values.at(name).sizes.size() == 1;
    if (!is_list) return add("Squeeze", {parts[0], constant({0})});
    if (parts.size() == 1) return parts[0];
    return add("Concat", parts, {AttributeProto::of("axis", int64_t{0})});
  }

  // In a Reshape, 0 stands for the input's size and -1 for what is left.
  void shorten_reshape(const NodeProto& node, const std::vector<Profile>& profiles,
                       std::vector<std::optional<int64_t>>& fixed) const {
    const auto from = sizes_of(node.inputs[0]);
    size_t left = 0, last = 0;
    bool has_rest = false;
    for (size_t i = 0; i < profiles.size(); ++i) {
      has_rest |= fixed[i] == -1;
      if (!fixed[i] && from && i < from->size() && (*from)[i] == profiles[i]) fixed[i] = 0;
      if (!fixed[i]) ++left, last = i;
    }
    if (left == 1 && !has_rest) fixed[last] = -1;
  }
  // In an Expand, 1 leaves a size as it is.
  void shorten_expand(const NodeProto& node, const std::vector<Profile>& profiles,
                      std::vector<std::optional<int64_t>>& fixed) const {
    const auto from = sizes_of(node.inputs[0]);
    if (!from || from->size() > profiles.size()) return;
    const size_t lead = profiles.size() - from->size();
    for (size_t i = lead; i < profiles.size(); ++i)
      if (!fixed[i] && (*from)[i - lead] == profiles[i]) fixed[i] = 1;
  }

  std::string add(std::string_view op_type, Names inputs,
                  std::vector<AttributeProto> attributes = {}) {
    NodeProto node;
    node.op_type = op_type;
    node.name = concat("size_", ++count_);
    node.inputs = std::move(inputs);
    node.outputs = {concat("dynamic_size_", count_)};
    node.attributes = std::move(attributes);
    graph_.nodes.push_back(std::move(node));
    return graph_.nodes.back().outputs[0];
  }
  std::string constant(std::vector<int64_t> values) {
    std::string name = concat("constant_of_sizes_", ++count_);
    added_constants_.emplace_back(name, tensor(values, {.dtype = kInt64}));
    return name;
  }
  std::string size_of(const Size& size) {
    std::string& name = written_[{size.value, size.axis}];
    if (name.empty())
      name =
          add("Shape", {size.value},
              {AttributeProto::of("start", size.axis), AttributeProto::of("end", size.axis + 1)});
    return name;
  }
  std::string written(const Formula& formula) {
    std::string result = size_of(sizes_[formula.sizes[0]]);
    for (size_t i = 1; i < formula.sizes.size(); ++i)
      result = add("Mul", {result, size_of(sizes_[formula.sizes[i]])});
    if (formula.factor != 1) result = add("Mul", {result, constant({formula.factor})});
    if (formula.divisor != 1) result = add("Div", {result, constant({formula.divisor})});
    if (formula.offset != 0) result = add("Add", {result, constant({formula.offset})});
    return result;
  }

  void note_outputs() {
    for (ValueInfoProto& output : graph_.outputs) {
      const auto profiles = sizes_of(output.name);
      ensure(profiles.has_value(), "onnx: an output without sizes");
      traces_[0].output_sizes[output.name] = *profiles;
      for (size_t d = 0; d < profiles->size(); ++d)
        if (!is_constant((*profiles)[d])) (*output.sizes)[d].size = std::nullopt;
    }
  }

  std::vector<TracedGraph>& traces_;
  GraphProto& graph_;
  std::map<std::string, std::vector<Profile>> varying_;
  std::map<std::string, Tensor> new_constants_;
  std::vector<std::pair<std::string, Tensor>> added_constants_;
  std::vector<Size> sizes_;
  std::map<std::pair<std::string, int64_t>, std::string> written_;
  size_t count_ = 0;
};

}  // namespace

void merge_traces(std::vector<TracedGraph>& traces) { Merge(traces).run(); }

}  // namespace tensora::onnx
