#pragma once

// How a compiled function with `replay` skips its body. See Note [Replay].

#include <concepts>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "tensora/base/mutex.h"
#include "tensora/core/tensor.h"
#include "tensora/jit/lazy.h"

namespace tensora {
class AccumulateGrad;
struct HostStep;
}  // namespace tensora

namespace tensora::jit {

class Tape;
struct Plan;

/// The arguments of a call: its tensors, and everything else that decides what the body does.
class ReplayCall {
 public:
  ReplayCall();
  void add(const Tensor& tensor);
  void add(const std::vector<Tensor>& tensors);
  template <class T>
    requires std::is_arithmetic_v<T> || std::is_enum_v<T>
  void add(T value) {
    add_word(reinterpret_cast<uintptr_t>(&kTypeMark<T>));  // a body may depend on the type
    if constexpr (std::is_floating_point_v<T>)
      add_word(__builtin_bit_cast(uint64_t, static_cast<double>(value)));
    else
      add_word(static_cast<uint64_t>(value));
  }

 private:
  friend class Replay;
  friend class Recording;
  /// Its address tells types apart.
  template <class T>
  static constexpr char kTypeMark = 0;
  void add_word(uint64_t word) { words_.push_back(word); }
  std::vector<Tensor> tensors_;
  std::vector<uint64_t> words_;        // the signature: layouts, aliases, modes, types and numbers
  std::vector<std::string> settings_;  // of host steps, before the body runs
};

/// What one run of the body did.
class Recording {
 public:
  explicit Recording(const ReplayCall& call);
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  /// The recorder tells what happens. `take` copies a tape that is about to run.
  void take(const Tape& tape, std::shared_ptr<const Plan> plan);
  void refuse(std::string_view reason);
  void meet_leaf(AccumulateGrad& leaf, bool reads);
  void meet_history(const Tensor& target);
  void begin_step(const HostStep& step, size_t nodes);
  void end_step(size_t nodes);
  bool is_in_step() const;
  /// The body has returned; what is still on the recorder's tape is the end of the recording.
  /// `form` says how the caller puts the results together; it is returned with those of a replay.
  void finish(std::span<const Tensor> results, uint64_t form = 0);

  struct State;

 private:
  friend class Replay;
  std::shared_ptr<State> state_;
  uint32_t autocast_scopes_;  // of the thread, before
};

/// What a replayed call returns.
struct Replayed {
  std::vector<Tensor> results;
  uint64_t form = 0;  // as it was given to Recording::finish
};

/// The recordings of one function. Threads may replay at once.
class Replay {
 public:
  Replay(std::string name, int verify);
  ~Replay();
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;

  /// Whether functions can be replayed here: not while another scope or a trace is active.
  static bool is_possible();
  /// Runs the recording for such a call; nothing if the body has to run.
  std::optional<Replayed> run(ReplayCall& call);
  /// Takes what the body did. Throws if `verify` finds that a recording is out of date.
  void keep(const ReplayCall& call, Recording& recording);
  /// How many calls skipped the body, and why others could not, one line each.
  std::string describe() const;
  uint64_t replayed() const;

 private:
  struct Entry;
  Entry* find(const ReplayCall& call);
  static bool serves(const Entry& entry, const ReplayCall& call);
  static bool finds_gradients(const Recording::State& recording, const ReplayCall& call);
  static void note_settings(const Recording::State& recording, ReplayCall& call);
  static std::string settings_difference(const ReplayCall& call, const Recording::State& state);
  static std::vector<Tensor> run(const Recording::State& recording, Tape& tape,
                                 const ReplayCall& call, bool& complete);

  const std::string name_;
  const int verify_;
  Mutex& mutex_;
  std::vector<std::unique_ptr<Entry>> entries_;
  uint64_t replayed_ = 0;
};

// ---- which functions can be replayed
// -------------------------------------------------------------

template <class T>
concept ReplayArgument = requires(ReplayCall& call, const T& value) { call.add(value); };

/// A result as a list of tensors, and back.
template <class T>
struct ReplayResult : std::false_type {};
template <>
struct ReplayResult<Tensor> : std::true_type {
  static void to_list(const Tensor& value, std::vector<Tensor>& list) { list.push_back(value); }
  static Tensor from_list(std::span<const Tensor>& list) {
    Tensor first = list.front();
    list = list.subspan(1);
    return first;
  }
};
template <class... T>
  requires(ReplayResult<T>::value && ...)
struct ReplayResult<std::tuple<T...>> : std::true_type {
  static void to_list(const std::tuple<T...>& value, std::vector<Tensor>& list) {
    std::apply([&](const T&... parts) { (ReplayResult<T>::to_list(parts, list), ...); }, value);
  }
  static std::tuple<T...> from_list(std::span<const Tensor>& list) {
    return std::tuple<T...>{ReplayResult<T>::from_list(list)...};
  }
};
template <class A, class B>
  requires(ReplayResult<A>::value && ReplayResult<B>::value)
struct ReplayResult<std::pair<A, B>> : std::true_type {
  static void to_list(const std::pair<A, B>& value, std::vector<Tensor>& list) {
    ReplayResult<A>::to_list(value.first, list);
    ReplayResult<B>::to_list(value.second, list);
  }
  static std::pair<A, B> from_list(std::span<const Tensor>& list) {
    return std::pair<A, B>{ReplayResult<A>::from_list(list), ReplayResult<B>::from_list(list)};
  }
};
/// A list takes all that is left, so it comes last.
template <>
struct ReplayResult<std::vector<Tensor>> : std::true_type {
  static void to_list(const std::vector<Tensor>& value, std::vector<Tensor>& list) {
    list.insert(list.end(), value.begin(), value.end());
  }
  static std::vector<Tensor> from_list(std::span<const Tensor>& list) {
    return {list.begin(), list.end()};
  }
};

}  // namespace tensora::jit
