#include "tensora/distributed/pipeline_schedule.h"

#include <algorithm>
#include <limits>
#include <map>

#include "tensora/base/error_kinds.h"

namespace tensora::distributed {
namespace {

using Kind = PipelineActionKind;
using Actions = std::vector<PipelineAction>;

bool is_last_part(Kind kind) { return kind == Kind::backward || kind == Kind::backward_weight; }
bool gives_input_gradient(Kind kind) {
  return kind == Kind::backward || kind == Kind::backward_input;
}
double unit_time(Kind kind) { return kind == Kind::backward ? 2 : 1; }

Actions gpipe(int rank, int micro_batches) {
  Actions actions;
  for (const Kind kind : {Kind::forward, Kind::backward})
    for (int i = 0; i < micro_batches; ++i) actions.push_back({kind, rank, i});
  return actions;
}

// `order(k)` is the k-th forward, `reverse(k)` the k-th backward of a rank with `count` of each.
template <class Order, class Reverse>
Actions take_turns(int warmup, int count, const Order& order, const Reverse& reverse) {
  Actions actions;
  int backward = 0;
  for (int k = 0; k < count; ++k) {
    actions.push_back(order(k));
    if (k >= warmup) actions.push_back(reverse(backward++));
  }
  while (backward < count) actions.push_back(reverse(backward++));
  return actions;
}

Actions one_forward_one_backward(int rank, int ranks, int micro_batches) {
  return take_turns(
      std::min(ranks - 1 - rank, micro_batches), micro_batches,
      [&](int k) {
        return PipelineAction{Kind::forward, rank, k};
      },
      [&](int k) {
        return PipelineAction{Kind::backward, rank, k};
      });
}

// Micro-batches go through in groups of as many as there are ranks: each group passes the rank's
// first stage, then its second, and so on.
Actions interleaved(int rank, int ranks, int micro_batches, int per_rank) {
  const int round = ranks * per_rank;
  const auto action = [&](Kind kind, int k) {
    const int within = k % round;
    const int turn = within / ranks;
    const int chunk = kind == Kind::forward ? turn : per_rank - 1 - turn;
    return PipelineAction{kind, chunk * ranks + rank, k / round * ranks + within % ranks};
  };
  const int count = micro_batches * per_rank;
  const int warmup = std::min(count, (ranks - rank - 1) * 2 + (per_rank - 1) * ranks);
  return take_turns(
      warmup, count, [&](int k) { return action(Kind::forward, k); },
      [&](int k) { return action(Kind::backward, k); });
}

// Forwards and gradients of inputs take turns as in 1f1b, in unit times. A rank whose next one of
// them is not possible yet computes a gradient of weights, if it has one to compute. No rank keeps
// more micro-batches than the first one of 1f1b.
std::vector<Actions> zero_bubble(int ranks, int micro_batches) {
  struct Rank {
    int forwards = 0, inputs = 0, weights = 0;
    double free = 0;
  };
  std::vector<Rank> state(static_cast<size_t>(ranks));
  std::vector<Actions> tables(static_cast<size_t>(ranks));
  constexpr double kNever = std::numeric_limits<double>::infinity();
  const auto grid = [&] {
    return std::vector<std::vector<double>>(
        static_cast<size_t>(ranks),
        std::vector<double>(static_cast<size_t>(micro_batches), kNever));
  };
  auto forward_end = grid(), input_end = grid();
  const auto end_of = [](const auto& ends, int rank, int micro_batch) {
    return ends[static_cast<size_t>(rank)][static_cast<size_t>(micro_batch)];
  };
  int left = 3 * ranks * micro_batches;
  for (double now = 0; left > 0; now += 1)
    for (int r = 0; r < ranks; ++r) {
      Rank& mine = state[static_cast<size_t>(r)];
      if (mine.free > now) continue;
      const int next = mine.forwards, back = mine.inputs;
      const bool can_back = back < next && end_of(forward_end, r, back) <= now &&
                            (r == ranks - 1 || end_of(input_end, r + 1, back) <= now);
      const bool can_forward = next < micro_batches && next - mine.weights < ranks &&
                               (r == 0 || end_of(forward_end, r - 1, next) <= now);
      const bool forward_turn = next < micro_batches && next - back < ranks - r;
      PipelineAction action{.stage = r};
      if (can_back && !forward_turn) {
        action.kind = Kind::backward_input;
        action.micro_batch = mine.inputs++;
        input_end[static_cast<size_t>(r)][static_cast<size_t>(action.micro_batch)] = now + 1;
      } else if (can_forward && forward_turn) {
        action.micro_batch = mine.forwards++;
        forward_end[static_cast<size_t>(r)][static_cast<size_t>(action.micro_batch)] = now + 1;
      } else if (mine.weights < mine.inputs) {
        action.kind = Kind::backward_weight;
        action.micro_batch = mine.weights++;
      } else {
        continue;
      }
      tables[static_cast<size_t>(r)].push_back(action);
      mine.free = now + 1;
      --left;
    }
  return tables;
}

std::string text_of(const PipelineAction& action) {
  return concat(name(action.kind), " of micro-batch ", action.micro_batch, " in stage ",
                action.stage);
}

// Every stage has every micro-batch once, and its gradients come in order.
void check_complete(const PipelineSchedule& schedule) {
  std::vector<int> forwards(static_cast<size_t>(schedule.stages())), inputs = forwards,
                                                                     weights = forwards;
  std::vector<std::vector<bool>> seen(
      static_cast<size_t>(schedule.stages()),
      std::vector<bool>(static_cast<size_t>(schedule.micro_batches), false));
  for (int rank = 0; rank < schedule.ranks; ++rank)
    for (const PipelineAction& action : schedule.actions[static_cast<size_t>(rank)]) {
      check(action.stage >= 0 && action.stage < schedule.stages() && action.micro_batch >= 0 &&
                action.micro_batch < schedule.micro_batches,
            "pipeline: ", text_of(action), " does not exist in a schedule of ", schedule.stages(),
            " stages and ", schedule.micro_batches, " micro-batches");
      check(schedule.rank_of(action.stage) == rank, "pipeline: ", text_of(action), " is on rank ",
            rank, ", but the stage is on rank ", schedule.rank_of(action.stage));
      const auto stage = static_cast<size_t>(action.stage);
      if (action.kind == Kind::forward) {
        check(!seen[stage][static_cast<size_t>(action.micro_batch)], "pipeline: ", text_of(action),
              " comes twice");
        seen[stage][static_cast<size_t>(action.micro_batch)] = true;
        ++forwards[stage];
      }
      if (gives_input_gradient(action.kind))
        check(inputs[stage]++ == action.micro_batch, "pipeline: ", text_of(action),
              " is not in the order of micro-batches");
      if (is_last_part(action.kind))
        check(weights[stage]++ == action.micro_batch, "pipeline: ", text_of(action),
              " is not in the order of micro-batches");
    }
  for (size_t stage = 0; stage < forwards.size(); ++stage)
    check(forwards[stage] == schedule.micro_batches && inputs[stage] == schedule.micro_batches &&
              weights[stage] == schedule.micro_batches,
          "pipeline: stage ", stage, " has ", forwards[stage], " forwards, ", inputs[stage],
          " gradients of inputs and ", weights[stage], " of weights for ", schedule.micro_batches,
          " micro-batches");
}

// Messages between two ranks are matched in order: what one sends next is what the other expects
// next. Activations go to the next rank, gradients to the one before.
void check_messages(const PipelineSchedule& schedule) {
  if (schedule.ranks == 1) return;
  using Messages = std::vector<std::pair<int, int>>;  // stage that receives, micro-batch
  const auto of = [&](int rank, bool sent, bool gradients) {
    Messages messages;
    for (const PipelineAction& action : schedule.actions[static_cast<size_t>(rank)]) {
      if (gradients ? !gives_input_gradient(action.kind) : action.kind != Kind::forward) continue;
      const int target = !sent ? action.stage : gradients ? action.stage - 1 : action.stage + 1;
      const bool exists = gradients ? target >= 0 && target < schedule.stages() - 1
                                    : target > 0 && target < schedule.stages();
      if (exists) messages.emplace_back(target, action.micro_batch);
    }
    return messages;
  };
  for (int rank = 0; rank < schedule.ranks; ++rank)
    for (const bool gradients : {false, true}) {
      const int to = (rank + (gradients ? schedule.ranks - 1 : 1)) % schedule.ranks;
      check(of(rank, true, gradients) == of(to, false, gradients), "pipeline: rank ", rank,
            " sends its ", gradients ? "gradients" : "activations", " in another order than rank ",
            to, " receives them");
    }
}

/// Performs a schedule in unit times.
class Rehearsal {
 public:
  explicit Rehearsal(const PipelineSchedule& schedule)
      : schedule_(schedule),
        next_(schedule.actions.size(), 0),
        free_(schedule.actions.size(), 0),
        kept_(schedule.actions.size(), 0) {
    result_.kept.assign(schedule.actions.size(), 0);
  }

  PipelineCheck run() {
    bool moved = true;
    while (moved) {
      moved = false;
      for (size_t rank = 0; rank < next_.size(); ++rank)
        while (next_[rank] < schedule_.actions[rank].size() && perform(rank)) moved = true;
    }
    double busy = 0;
    for (size_t rank = 0; rank < next_.size(); ++rank) {
      if (next_[rank] < schedule_.actions[rank].size())
        fail("pipeline: rank ", rank, " waits for ever before the ",
             text_of(schedule_.actions[rank][next_[rank]]));
      for (const PipelineAction& action : schedule_.actions[rank]) busy += unit_time(action.kind);
      result_.time = std::max(result_.time, free_[rank]);
    }
    const double all = result_.time * static_cast<double>(next_.size());
    result_.idle = all > 0 ? 1 - busy / all : 0;
    return result_;
  }

 private:
  using Key = std::pair<int, int>;  // stage and micro-batch

  static const double* find(const std::map<Key, double>& ends, int stage, int micro_batch) {
    const auto found = ends.find({stage, micro_batch});
    return found == ends.end() ? nullptr : &found->second;
  }

  // What the action waits for; null if that has not happened.
  const double* ready(const PipelineAction& action) const {
    static constexpr double kStart = 0;
    const int s = action.stage, i = action.micro_batch;
    if (action.kind == Kind::forward) return s == 0 ? &kStart : find(forward_, s - 1, i);
    if (action.kind == Kind::backward_weight) return find(input_, s, i);
    if (!find(forward_, s, i)) return nullptr;
    return s == schedule_.stages() - 1 ? find(forward_, s, i) : find(input_, s + 1, i);
  }

  bool perform(size_t rank) {
    const PipelineAction& action = schedule_.actions[rank][next_[rank]];
    const double* const from = ready(action);
    if (!from) return false;
    const double end = std::max(*from, free_[rank]) + unit_time(action.kind);
    free_[rank] = end;
    const Key key{action.stage, action.micro_batch};
    if (action.kind == Kind::forward) forward_[key] = end;
    if (gives_input_gradient(action.kind)) input_[key] = end;
    kept_[rank] += action.kind == Kind::forward ? 1 : is_last_part(action.kind) ? -1 : 0;
    result_.kept[rank] = std::max(result_.kept[rank], kept_[rank]);
    ++next_[rank];
    return true;
  }

  const PipelineSchedule& schedule_;
  std::vector<size_t> next_;
  std::vector<double> free_;
  std::vector<int> kept_;
  std::map<Key, double> forward_, input_;
  PipelineCheck result_;
};

}  // namespace

std::string_view name(PipelineActionKind kind) {
  switch (kind) {
    case Kind::forward:
      return "forward";
    case Kind::backward:
      return "backward";
    case Kind::backward_input:
      return "backward_input";
    default:
      return "backward_weight";
  }
}

std::string PipelineSchedule::table() const {
  constexpr char kLetters[] = {'F', 'B', 'I', 'W'};
  std::string text;
  for (const Actions& row : actions) {
    for (size_t i = 0; i < row.size(); ++i) {
      if (i > 0) text += ' ';
      text += kLetters[static_cast<size_t>(row[i].kind)];
      if (stages_per_rank > 1) text += concat(row[i].stage, ".");
      text += concat(row[i].micro_batch);
    }
    text += '\n';
  }
  return text;
}

PipelineSchedule make_pipeline_schedule(std::string_view name, int ranks, int micro_batches,
                                        int stages_per_rank) {
  check_as<ValueError>(ranks >= 1 && micro_batches >= 1 && stages_per_rank >= 1,
                       "pipeline: expected at least one rank, micro-batch and stage, got ", ranks,
                       ", ", micro_batches, " and ", stages_per_rank);
  check_as<ValueError>(stages_per_rank == 1 || name == "interleaved", "pipeline: the schedule ",
                       name, " has one stage per rank, got ", stages_per_rank);
  PipelineSchedule schedule{std::string(name), ranks, stages_per_rank, micro_batches, {}};
  if (name == "zero-bubble") {
    schedule.actions = zero_bubble(ranks, micro_batches);
    return schedule;
  }
  for (int rank = 0; rank < ranks; ++rank) {
    if (name == "gpipe") {
      schedule.actions.push_back(gpipe(rank, micro_batches));
    } else if (name == "1f1b") {
      schedule.actions.push_back(one_forward_one_backward(rank, ranks, micro_batches));
    } else {
      check_as<ValueError>(
          name == "interleaved",
          "pipeline: expected the schedule gpipe, 1f1b, interleaved or zero-bubble, got \"", name,
          "\"");
      check_as<ValueError>(micro_batches % ranks == 0,
                           "pipeline: the schedule interleaved needs a multiple of ", ranks,
                           " micro-batches, got ", micro_batches);
      schedule.actions.push_back(interleaved(rank, ranks, micro_batches, stages_per_rank));
    }
  }
  return schedule;
}

PipelineCheck check_pipeline_schedule(const PipelineSchedule& schedule) {
  check(static_cast<int>(schedule.actions.size()) == schedule.ranks, "pipeline: a schedule of ",
        schedule.ranks, " ranks has ", schedule.actions.size(), " rows");
  check_complete(schedule);
  check_messages(schedule);
  return Rehearsal(schedule).run();
}

}  // namespace tensora::distributed
