#include "tensora/distributed/context_parallel.h"

#include <limits>

#include "tensora/autograd/function.h"
#include "tensora/autograd/grad_mode.h"
#include "tensora/base/error_kinds.h"
#include "tensora/dispatch/data_of.h"
#include "tensora/dispatch/op.h"
#include "tensora/ops.h"
#include "tensora/ops/attention/attention.h"

namespace tensora::distributed {
namespace {

/// Passes tensors to the next rank and takes those of the one before. While it lives, the tensors
/// belong to the exchange.
class Exchange {
 public:
  Exchange(ProcessGroup& group, TensorList sent) : sent_(std::move(sent)) {
    const int ranks = group.size(), rank = group.rank();
    for (Tensor& tensor : sent_) {
      tensor = tensor.contiguous();
      received_.push_back(empty_like(tensor));
      works_.push_back(group.send(data_of(tensor), (rank + 1) % ranks));
      works_.push_back(group.recv(data_of(received_.back()), (rank + ranks - 1) % ranks));
    }
  }
  ~Exchange() {
    const auto kept = std::make_shared<std::pair<TensorList, TensorList>>(sent_, received_);
    for (const WorkPtr& work : works_)
      if (!work->done()) work->keep(kept);
  }
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  TensorList finish() {
    for (const WorkPtr& work : works_) work->wait();
    return received_;
  }

 private:
  TensorList sent_, received_;
  std::vector<WorkPtr> works_;
};

/// Which queries of a rank meet which keys of another one's part.
struct Meeting {
  bool causal = false;
  int64_t queries_from = 0, queries = 0, keys = 0;  // the keys are the first of the part
};

// See Note [Sequences divided among ranks]. Keys of an earlier rank: their first chunk lies before
// both chunks of the queries, their second behind both. Of a later rank: both lie between the
// queries' chunks.
Meeting meeting_of(int rank, int other, int64_t length, bool causal) {
  if (!causal || rank == other) return {causal, 0, length, length};
  if (other < rank) return {false, 0, length, length / 2};
  return {false, length / 2, length - length / 2, length};
}

AttentionAttrs attributes(const Meeting& meeting, std::optional<double> scale) {
  return {.is_causal = meeting.causal, .scale = scale};
}

struct RingState {
  std::shared_ptr<ProcessGroup> group;
  bool is_causal = true;
  std::optional<double> scale;
};

struct RingFunction : Function<RingFunction> {
  static Tensor forward(Context& context, const Tensor& query, const Tensor& key,
                        const Tensor& value, const RingState& state) {
    ProcessGroup& group = *state.group;
    const int64_t length = query.size(2);
    const DType wide = promote_types(query.dtype(), kFloat32);
    Shape sizes = query.sizes();
    sizes[3] = value.size(3);
    const TensorOptions like{.dtype = wide, .device = query.device()};
    const Tensor sum = zeros(sizes, like);
    sizes.resize(3);
    const Tensor logarithms = full(sizes, -std::numeric_limits<double>::infinity(), like);
    TensorList part{key, value};
    for (int turn = 0; turn < group.size(); ++turn) {
      std::optional<Exchange> exchange;
      if (turn + 1 < group.size()) exchange.emplace(group, part);
      const int owner = (group.rank() + group.size() - turn) % group.size();
      const Meeting meeting = meeting_of(group.rank(), owner, length, state.is_causal);
      const Tensors found =
          apply_all(attention_op,
                    {query.narrow(2, meeting.queries_from, meeting.queries),
                     part[0].narrow(2, 0, meeting.keys), part[1].narrow(2, 0, meeting.keys)},
                    attributes(meeting, state.scale));
      merge(sum.narrow(2, meeting.queries_from, meeting.queries),
            logarithms.narrow(2, meeting.queries_from, meeting.queries), found[0].to(wide),
            found[1].to(wide));
      if (exchange) part = exchange->finish();
    }
    const Tensor result = sum.to(query.dtype());
    context.save_for_backward({query, key, value, result, logarithms});
    context.data["state"] = state;
    return result;
  }

  // Two means over different keys, weighted by their sums of exponentials.
  static void merge(const Tensor& sum, const Tensor& logarithms, const Tensor& more,
                    const Tensor& more_logarithms) {
    const Tensor both = logaddexp(logarithms, more_logarithms);
    sum.mul_(exp(logarithms - both).unsqueeze(3));
    sum.add_(more * exp(more_logarithms - both).unsqueeze(3));
    logarithms.copy_(both);
  }

  // With the logarithms of all keys, the gradient of a part of the keys is that of attention over
  // this part: probabilities are recomputed from them.
  static TensorList backward(Context& context, const TensorList& grads) {
    const TensorList saved = context.saved_tensors();
    const Tensor &query = saved[0], &result = saved[3], &logarithms = saved[4];
    const auto state = std::any_cast<RingState>(context.data["state"]);
    ProcessGroup& group = *state.group;
    const no_grad silent;
    const DType wide = promote_types(query.dtype(), kFloat32);
    const Tensor grad_query = zeros_like(query, {.dtype = wide});
    TensorList part{saved[1], saved[2]};
    TensorList grad_part{zeros_like(saved[1], {.dtype = wide}),
                         zeros_like(saved[2], {.dtype = wide})};
    for (int turn = 0; turn < group.size(); ++turn) {
      std::optional<Exchange> exchange;
      if (turn + 1 < group.size()) exchange.emplace(group, part);
      const int owner = (group.rank() + group.size() - turn) % group.size();
      const Meeting meeting = meeting_of(group.rank(), owner, query.size(2), state.is_causal);
      const auto rows = [&](const Tensor& x) {
        return x.narrow(2, meeting.queries_from, meeting.queries);
      };
      const auto keys = [&](const Tensor& x) { return x.narrow(2, 0, meeting.keys); };
      const Tensors found = apply_all(attention_backward_op,
                                      {rows(grads[0]), rows(query), keys(part[0]), keys(part[1]),
                                       rows(result), rows(logarithms).contiguous()},
                                      attributes(meeting, state.scale));
      rows(grad_query).add_(found[0].to(wide));
      keys(grad_part[0]).add_(found[1].to(wide));
      keys(grad_part[1]).add_(found[2].to(wide));
      if (group.size() == 1) break;
      if (exchange) part = exchange->finish();
      grad_part = Exchange(group, grad_part).finish();  // one more turn brings them home
    }
    return {grad_query.to(query.dtype()),
            grad_part[0].to(query.dtype()),
            grad_part[1].to(query.dtype()),
            {}};
  }
};

void check_divides(int64_t size, const ProcessGroup& group) {
  check_as<ValueError>(size % (2 * group.size()) == 0, "split_sequence: a sequence of ", size,
                       " positions cannot be cut into 2 x ", group.size(), " equal chunks");
}

}  // namespace

Tensor split_sequence(const Tensor& whole, int64_t dim, ProcessGroup& group) {
  check_divides(whole.size(dim), group);
  const int64_t chunk = whole.size(dim) / (2 * group.size()), rank = group.rank();
  return cat({whole.narrow(dim, rank * chunk, chunk),
              whole.narrow(dim, (2 * group.size() - 1 - rank) * chunk, chunk)},
             dim);
}

Tensor join_sequence(const Tensor& part, int64_t dim, ProcessGroup& group) {
  const no_grad silent;
  const Tensor own = part.detach().contiguous();
  Shape sizes{group.size()};
  for (const int64_t size : own.sizes()) sizes.push_back(size);
  const Tensor all = empty(sizes, {.dtype = own.dtype(), .device = own.device()});
  group.all_gather(data_of(all), data_of(own))->wait();
  const int64_t chunk = part.size(dim) / 2;
  TensorList chunks(static_cast<size_t>(2 * group.size()));
  for (int64_t r = 0; r < group.size(); ++r) {
    chunks[static_cast<size_t>(r)] = all[r].narrow(dim, 0, chunk);
    chunks[static_cast<size_t>(2 * group.size() - 1 - r)] = all[r].narrow(dim, chunk, chunk);
  }
  return cat(chunks, dim);
}

Tensor ring_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                      const RingAttentionOptions& options) {
  check_as<ValueError>(query.dim() == 4 && key.dim() == 4 && value.dim() == 4,
                       "ring_attention: expected query, key and value of shape [batch, heads, "
                       "positions, size], got ",
                       query.sizes(), ", ", key.sizes(), " and ", value.sizes());
  check_as<ValueError>(key.size(2) == query.size(2) && value.size(2) == query.size(2),
                       "ring_attention: query, key and value must have the same part of the ",
                       "sequence, got ", query.size(2), ", ", key.size(2), " and ", value.size(2),
                       " positions");
  RingState state{options.group ? options.group : world(), options.is_causal, options.scale};
  check_as<ValueError>(!state.is_causal || state.group->size() == 1 || query.size(2) % 2 == 0,
                       "ring_attention: a part of the sequence has two chunks, got ", query.size(2),
                       " positions");
  return RingFunction::apply(query, key, value, state);
}

}  // namespace tensora::distributed
