#pragma once

// Internal header: how an op may be divided among ranks.

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "tensora/core/process_group.h"
#include "tensora/dispatch/op.h"

// Note [Factors]
// The letters of Note [Shard rules] (dispatch/sharding.h), bound to one call: each dim of its
// inputs and outputs has a factor, a number. Dims of one factor are divided together; a dim without
// a factor must be whole on every rank.

namespace tensora::distributed {

/// The factor of each dim of a tensor.
using Factors = SmallVector<int, 8>;
constexpr int kWhole = -1;

/// How one call may be divided. See Note [Factors].
struct ShardRule {
  std::vector<Factors> inputs = {}, outputs = {};
  /// How outputs of ranks that divide a factor which these outputs lack are combined; none: such a
  /// factor cannot be divided.
  std::optional<ReduceOp> combined_by = {};
  std::vector<bool> added = {};  // inputs that are added to the sum; empty: none
  /// The op is linear in all of its inputs together: partial inputs give partial outputs.
  bool linear = false;
  /// The op's definition in other ops is run instead; nothing else is set then.
  bool by_definition = false;
  /// Ranks without elements cannot run the op.
  bool needs_elements = false;
  /// The attribute that holds the output's sizes, if there is one.
  std::string_view sizes_attr = {};
};

/// A call with the inputs and outputs of one process.
struct WholeCall {
  const OpBase& op;
  const void* attrs;
  Args inputs;
  std::span<const OutputSpec> outputs;
  int64_t ranks;  // of the mesh
};

/// The rule of a call; none if the op has none, or none for these arguments.
std::optional<ShardRule> shard_rule(const WholeCall& call);

/// Whether the op writes into its inputs' memory without saying so by an in-place form.
bool writes_inputs(const OpBase& op);

/// Whether the shapes of a call's outputs are needed to find a rule; ops without any rule may have
/// outputs whose shapes depend on data.
bool has_shard_rule(const OpBase& op);

/// The rule that letters describe; none if they do not fit the shapes.
std::optional<ShardRule> rule_of_letters(std::string_view letters, const WholeCall& call,
                                         std::optional<ReduceOp> combined_by = {});

/// Attributes of a call by name.
class AttrReader {
 public:
  explicit AttrReader(const WholeCall& call) : values_(call.op.list_attrs(call.attrs)) {}
  const AttrValue& operator[](std::string_view name) const;
  /// The dims that the attribute names, none or an empty list: all.
  std::vector<bool> dims(std::string_view name, const Tensor& of) const;

 private:
  std::vector<std::pair<std::string_view, AttrValue>> values_;
};

}  // namespace tensora::distributed
