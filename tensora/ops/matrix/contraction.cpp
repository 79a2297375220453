// Registers nothing: functions of other ops.

#include "tensora/ops/matrix/contraction.h"

#include <algorithm>
#include <limits>
#include <map>

#include "tensora/dispatch/op.h"
#include "tensora/ops/matrix/matmul.h"
#include "tensora/ops/pointwise/functions.h"
#include "tensora/ops/reduce/sum.h"
#include "tensora/ops/shape/permute.h"
#include "tensora/ops/shape/reshape.h"

namespace tensora {
namespace {

using Labels = std::vector<int>;

bool has(const Labels& labels, int label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

int place(const Labels& labels, int label) {
  return static_cast<int>(std::find(labels.begin(), labels.end(), label) - labels.begin());
}

Tensor permuted(const Labelled& x, const Labels& order) {
  Dims dims;
  bool in_order = true;
  for (const int label : order) {
    in_order &= place(x.labels, label) == dims.size();
    dims.push_back(place(x.labels, label));
  }
  return in_order ? x.tensor : permute(x.tensor, dims);
}

/// The dims whose labels nothing else needs.
Dims dims_without(const Labelled& x, const Labels& needed) {
  Dims gone;
  for (size_t i = 0; i < x.labels.size(); ++i)
    if (!has(needed, x.labels[i])) gone.push_back(static_cast<int64_t>(i));
  return gone;
}

Labels labels_within(const Labelled& x, const Labels& needed) {
  Labels kept;
  for (const int label : x.labels)
    if (has(needed, label)) kept.push_back(label);
  return kept;
}

/// Sums over those dims. A product of integers keeps their dtype, and so do its factors.
Labelled without(const Labelled& x, const Labels& needed) {
  const Dims gone = dims_without(x, needed);
  if (gone.empty()) return x;
  return {sum(x.tensor, gone, false, x.tensor.dtype()), labels_within(x, needed)};
}

// The dims of a group become one dim of a matrix. In the order of memory, longest stride first,
// they can often be joined without a copy.
void sort_by_stride(Labels& group, const Labelled& x) {
  std::stable_sort(group.begin(), group.end(), [&](int a, int b) {
    return x.tensor.stride(place(x.labels, a)) > x.tensor.stride(place(x.labels, b));
  });
}

/// The dims `batch`, then `rows` as one dim, then `columns` as one dim.
Tensor as_matrices(const Labelled& x, const Labels& batch, const Labels& rows,
                   const Labels& columns) {
  Labels order = batch;
  order.insert(order.end(), rows.begin(), rows.end());
  order.insert(order.end(), columns.begin(), columns.end());
  const Tensor ordered = permuted(x, order);
  if (rows.size() == 1 && columns.size() == 1) return ordered;
  Shape sizes;
  int dim = 0;
  for (; dim < static_cast<int>(batch.size()); ++dim) sizes.push_back(ordered.size(dim));
  for (const Labels* group : {&rows, &columns}) {
    int64_t size = 1;
    for (size_t i = 0; i < group->size(); ++i) size *= ordered.size(dim++);
    sizes.push_back(size);
  }
  return reshape(ordered, sizes);
}

/// The labels of two operands, by what happens to them.
struct Roles {
  Labels batch, summed, left, right;
};

Roles roles_of(const Labelled& a, const Labelled& b, const Labels& needed) {
  Roles roles;
  for (const int label : a.labels)
    (!has(b.labels, label) ? roles.left
     : has(needed, label)  ? roles.batch
                           : roles.summed)
        .push_back(label);
  for (const int label : b.labels)
    if (!has(a.labels, label)) roles.right.push_back(label);
  return roles;
}

// Without a label to sum over, the product is that of broadcasting.
Labelled outer_product(const Labelled& a, const Labelled& b, const Roles& roles) {
  Labels labels = roles.batch;
  for (const Labels* group : {&roles.left, &roles.right})
    labels.insert(labels.end(), group->begin(), group->end());
  const auto spread = [&](const Labelled& x) {
    Labels order;
    Shape sizes;
    for (const int label : labels) {
      if (has(x.labels, label)) order.push_back(label);
      sizes.push_back(has(x.labels, label) ? x.tensor.size(place(x.labels, label)) : 1);
    }
    return reshape(permuted(x, order), sizes);
  };
  return {mul(spread(a), spread(b)), labels};
}

/// The product of two operands, summed over the labels of both that are not `needed`.
Labelled product_of_two(const Labelled& first, const Labelled& second, const Labels& needed) {
  const Labelled x = without(first, [&] {
    Labels all = needed;
    all.insert(all.end(), second.labels.begin(), second.labels.end());
    return all;
  }());
  const Labelled y = without(second, [&] {
    Labels all = needed;
    all.insert(all.end(), first.labels.begin(), first.labels.end());
    return all;
  }());
  // The label that is the last one needed should be the last one of the product, which is then
  // already laid out as wanted.
  const auto last = std::find_if(needed.rbegin(), needed.rend(), [&](int label) {
    return has(x.labels, label) != has(y.labels, label);
  });
  const bool swap = last != needed.rend() && has(x.labels, *last);
  const Labelled &a = swap ? y : x, &b = swap ? x : y;
  Roles roles = roles_of(a, b, needed);
  if (roles.summed.empty()) return outer_product(a, b, roles);
  sort_by_stride(roles.left, a);
  sort_by_stride(roles.right, b);
  sort_by_stride(roles.summed, a.tensor.numel() >= b.tensor.numel() ? a : b);
  const Tensor product = matmul(as_matrices(a, roles.batch, roles.left, roles.summed),
                                as_matrices(b, roles.batch, roles.summed, roles.right));
  Labels labels = roles.batch;
  Shape sizes;
  for (size_t i = 0; i < roles.batch.size(); ++i)
    sizes.push_back(product.size(static_cast<int64_t>(i)));
  for (const auto& [group, x_of] : {std::pair(&roles.left, &a), std::pair(&roles.right, &b)}) {
    for (const int label : *group) {
      labels.push_back(label);
      sizes.push_back(x_of->tensor.size(place(x_of->labels, label)));
    }
  }
  return {sizes == product.sizes() ? product : reshape(product, sizes), labels};
}

// ---- the order ---------------------------------------------------------------------------------

/// What the operands of a contraction look like, for the search: sets of labels as bits.
class Network {
 public:
  Network(const std::vector<Labelled>& operands, const Labels& output) {
    const auto bit = [&](int label) {
      const auto found = std::find(all_.begin(), all_.end(), label);
      if (found == all_.end()) all_.push_back(label);
      return uint64_t{1} << place(all_, label);
    };
    for (const Labelled& operand : operands) {
      uint64_t set = 0;
      for (size_t i = 0; i < operand.labels.size(); ++i) {
        const uint64_t label = bit(operand.labels[i]);
        set |= label;
        sizes_[label] = static_cast<double>(operand.tensor.size(static_cast<int64_t>(i)));
      }
      sets_.push_back(set);
    }
    for (const int label : output) output_ |= bit(label);
  }

  size_t size() const { return sets_.size(); }
  /// The labels that remain when the operands of `subset` are contracted.
  uint64_t remaining(uint64_t subset) const {
    uint64_t inside = 0, outside = output_;
    for (size_t i = 0; i < sets_.size(); ++i) (subset >> i & 1 ? inside : outside) |= sets_[i];
    return inside & outside;
  }
  double volume(uint64_t labels) const {
    double product = 1;
    for (const auto& [label, size] : sizes_)
      if (labels & label) product *= size;
    return product;
  }

 private:
  Labels all_;
  std::map<uint64_t, double> sizes_;
  std::vector<uint64_t> sets_;
  uint64_t output_ = 0;
};

/// For each set of operands, the part of it that is contracted first and then multiplied by the
/// rest.
std::vector<uint32_t> cheapest_splits(const Network& network) {
  const uint32_t full = (uint32_t{1} << network.size()) - 1;
  std::vector<double> cost(full + 1, std::numeric_limits<double>::infinity());
  std::vector<uint32_t> split(full + 1, 0);
  std::vector<uint64_t> labels(full + 1);
  for (uint32_t set = 1; set <= full; ++set) {
    labels[set] = network.remaining(set);
    if ((set & (set - 1)) == 0) {
      cost[set] = 0;
      continue;
    }
    const uint32_t lowest = set & (~set + 1);
    // The parts that hold the lowest operand: each split once.
    for (uint32_t part = (set - 1) & set; part != 0; part = (part - 1) & set) {
      if (!(part & lowest)) continue;
      const uint32_t rest = set ^ part;
      const double total = cost[part] + cost[rest] + network.volume(labels[part] | labels[rest]);
      if (total >= cost[set]) continue;
      cost[set] = total;
      split[set] = part;
    }
  }
  return split;
}

/// The labels that operands other than `i` and `k`, or the result, need.
Labels needed_beside(const std::vector<Labelled>& operands, size_t i, size_t k,
                     const Labels& output) {
  Labels needed = output;
  for (size_t other = 0; other < operands.size(); ++other) {
    if (other == i || other == k) continue;
    for (const int label : operands[other].labels)
      if (!has(needed, label)) needed.push_back(label);
  }
  return needed;
}

Labelled contract_split(const std::vector<Labelled>& operands, const Labels& output,
                        const std::vector<uint32_t>& split, uint32_t set) {
  if ((set & (set - 1)) == 0) return operands[static_cast<size_t>(__builtin_ctz(set))];
  const Labelled a = contract_split(operands, output, split, split[set]);
  const Labelled b = contract_split(operands, output, split, set ^ split[set]);
  // The labels of the result come first, in its order: the last product is laid out accordingly.
  Labels needed = output;
  for (size_t i = 0; i < operands.size(); ++i)
    if (!(set >> i & 1))
      for (const int label : operands[i].labels)
        if (!has(needed, label)) needed.insert(needed.begin(), label);
  return product_of_two(a, b, needed);
}

Labelled contract_greedily(std::vector<Labelled> operands, const Labels& output) {
  while (operands.size() > 1) {
    const Network network(operands, output);
    size_t best_i = 0, best_k = 1;
    double best = std::numeric_limits<double>::infinity();
    for (size_t i = 0; i < operands.size(); ++i) {
      for (size_t k = i + 1; k < operands.size(); ++k) {
        const uint64_t one = uint64_t{1} << i, other = uint64_t{1} << k;
        // What the product is larger than its factors: a contraction that shrinks comes first.
        const double growth = network.volume(network.remaining(one | other)) -
                              network.volume(network.remaining(one)) -
                              network.volume(network.remaining(other));
        if (growth >= best) continue;
        best = growth;
        best_i = i;
        best_k = k;
      }
    }
    const Labels needed = needed_beside(operands, best_i, best_k, output);
    operands[best_i] = product_of_two(operands[best_i], operands[best_k], needed);
    operands.erase(operands.begin() + static_cast<std::ptrdiff_t>(best_k));
  }
  return operands[0];
}

constexpr size_t kSearched = 8;   // operands: 3^8 splits are looked at
constexpr size_t kOperands = 63;  // a bit each

}  // namespace

Tensor contract(std::vector<Labelled> operands, const std::vector<int>& output) {
  check(operands.size() <= kOperands, "einsum: at most ", kOperands, " operands, got ",
        operands.size());
  if (operands.size() == 1) {  // a sum alone widens integers, as sum does
    const Labelled& only = operands[0];
    const Dims gone = dims_without(only, output);
    return permuted(
        {gone.empty() ? only.tensor : sum(only.tensor, gone), labels_within(only, output)}, output);
  }
  for (size_t i = 0; i < operands.size(); ++i)
    operands[i] = without(operands[i], needed_beside(operands, i, i, output));
  Labelled result;
  if (operands.size() <= kSearched) {
    const std::vector<uint32_t> split = cheapest_splits(Network(operands, output));
    result = contract_split(operands, output, split, static_cast<uint32_t>(split.size() - 1));
  } else {
    result = contract_greedily(std::move(operands), output);
  }
  return permuted(without(result, output), output);
}

}  // namespace tensora
