#include "tensora/jit/kernel_tuning.h"

#include <unistd.h>

#include <algorithm>
#include <limits>

#include "tensora/base/thread_pool.h"
#include "tensora/jit/kernel_store.h"

namespace tensora::jit {
namespace {

constexpr int kCallsPerCandidate = 2;
constexpr size_t kMostCandidates = 32;
constexpr double kUnusable = std::numeric_limits<double>::infinity();

std::string machine_name() {
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  return name;
}

std::string to_text(const TunableChoice& choice) {
  std::string text;
  for (const auto& [name, value] : choice) text += concat(name, "=", value, "\n");
  return text;
}

std::vector<TunableChoice> combinations(const std::vector<Tunable>& tunables) {
  std::vector<TunableChoice> all = {{}};
  for (const Tunable& tunable : tunables) {
    std::vector<TunableChoice> longer;
    for (const TunableChoice& choice : all)
      for (int64_t candidate : tunable.candidates) {
        longer.push_back(choice);
        longer.back()[tunable.name] = candidate;
      }
    all = std::move(longer);
    check(all.size() <= kMostCandidates, "jit: the tunables of a kernel have more than ",
          kMostCandidates, " combinations");
  }
  return all;
}

}  // namespace

Tuner::Turn Tuner::turn_of(Entry& entry) {
  if (entry.chosen >= 0)
    return {.choice = entry.candidates[static_cast<size_t>(entry.chosen)], .known = true};
  // Those that were dropped have had their calls.
  for (size_t tried = 0; tried < entry.candidates.size(); ++tried) {
    const size_t candidate = entry.next++ % entry.candidates.size();
    if (entry.seconds[candidate] == kUnusable && entry.calls[candidate] > 0) continue;
    return {.choice = entry.candidates[candidate],
            .candidate = static_cast<int>(candidate),
            .known = true};
  }
  return {.choice = entry.candidates[0], .known = true};
}

void Tuner::settle(Entry& entry) {
  if (entry.chosen >= 0 || std::any_of(entry.calls.begin(), entry.calls.end(),
                                       [](int calls) { return calls < kCallsPerCandidate; }))
    return;
  const auto best = std::min_element(entry.seconds.begin(), entry.seconds.end());
  entry.chosen = static_cast<int>(best - entry.seconds.begin());
  kernel_store().put(entry.key,
                     {.code = to_text(entry.candidates[static_cast<size_t>(entry.chosen)]),
                      .text = entry.text,
                      .description = "tuning"});
}

Tuner::Turn Tuner::begin(const std::string& signature) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(signature);
  return found == entries_.end() ? Turn{} : turn_of(found->second);
}

Tuner::Turn Tuner::learn(const std::string& signature, const std::vector<Tunable>& tunables,
                         const std::string& text, Device device) {
  const std::lock_guard lock(mutex_);
  const auto [place, is_new] = entries_.try_emplace(signature);
  Entry& entry = place->second;
  if (!is_new) return turn_of(entry);
  try {
    entry.candidates = combinations(tunables);
  } catch (...) {
    entries_.erase(place);
    throw;
  }
  entry.seconds.assign(entry.candidates.size(), kUnusable);
  entry.calls.assign(entry.candidates.size(), 0);
  entry.text = text;
  std::string lists;
  for (const Tunable& tunable : tunables)
    for (int64_t candidate : tunable.candidates)
      lists += concat(tunable.name, " ", candidate, "\n");
  entry.key = key_of(KernelSource{
      .text = concat(text, lists, signature),
      .architecture = concat(machine_name(), " ", device.type, " ", get_num_threads(), " threads"),
      .compiler = "tuning 1"});
  if (const auto stored = kernel_store().find(entry.key))
    for (size_t i = 0; i < entry.candidates.size(); ++i)
      if (to_text(entry.candidates[i]) == stored->code) entry.chosen = static_cast<int>(i);
  if (entry.candidates.size() == 1) entry.chosen = 0;
  return turn_of(entry);
}

void Tuner::end(const std::string& signature, const Turn& turn, double seconds) {
  if (turn.candidate < 0) return;
  const std::lock_guard lock(mutex_);
  Entry& entry = entries_.at(signature);
  const auto i = static_cast<size_t>(turn.candidate);
  entry.seconds[i] = std::min(entry.seconds[i], seconds);
  ++entry.calls[i];
  settle(entry);
}

void Tuner::drop(const std::string& signature, const Turn& turn) {
  const std::lock_guard lock(mutex_);
  Entry& entry = entries_.at(signature);
  entry.calls[static_cast<size_t>(turn.candidate)] = kCallsPerCandidate;
  settle(entry);
}

}  // namespace tensora::jit
