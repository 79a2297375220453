#pragma once

// Internal header: a kernel while its body runs.

#include <map>
#include <set>

#include "tensora/jit/kernel.h"

namespace tensora::jit {

/// The values of a kernel's tunables, by name.
using TunableChoice = std::map<std::string, int64_t, std::less<>>;
/// A tunable as the body names it.
struct Tunable {
  std::string name;
  std::vector<int64_t> candidates;
};

/// Collects the steps of a body and checks each of them when it is recorded.
class KernelRecording {
 public:
  KernelRecording(std::string_view name, std::span<const View> arrays, const TunableChoice& choice);
  ~KernelRecording();
  KernelRecording(const KernelRecording&) = delete;
  KernelRecording& operator=(const KernelRecording&) = delete;

  /// The recording of this thread; throws outside a kernel.
  static KernelRecording& current(std::string_view function);

  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    fail("kernel ", program_.name, ": ", parts...);
  }
  std::span<const Array> handles() const { return handles_; }
  const View& array(int i) const { return arrays_[static_cast<size_t>(i)]; }
  const BlockValue& value(int i) const { return program_.value(i); }
  const std::vector<Tunable>& tunables() const { return tunables_; }

  int integer(const Index& index);
  int add_integer(BlockInteger integer);
  Place place(int array, std::span<const Array::Span> spans);
  /// The tile that a place has, without a dtype.
  BlockValue shape_of(const BlockPlace& place) const;

  Index begin_program(const Index& count);
  Tile load(const Place& place);
  void store(const Place& place, const Tile& value, BlockStep::Kind kind);
  void set(const Tile& target, const Tile& value);
  /// What is added between the two is the body of a loop.
  Index begin_loop(const Index& begin, const Index& end, const Index& step);
  void end_loop();
  int64_t tunable(std::string_view name, std::span<const int64_t> candidates);
  /// Adds a step that makes a value, or only a step.
  Tile add(BlockStep step, BlockValue value);
  void add(BlockStep step);
  /// Throws if a tile cannot be used here: it belongs to another kernel, or to a loop that ended.
  void require(const Tile& tile) const;
  void require_begun() const;

  /// The program, after the body has run.
  BlockProgram finish();

 private:
  bool is_open(int scope) const;
  void check_races(const BlockPlace& place) const;
  void check_overlaps() const;

  BlockProgram program_;
  std::span<const View> arrays_;
  const TunableChoice& choice_;
  std::vector<Array> handles_;
  std::vector<Tunable> tunables_;
  std::vector<int> scopes_ = {0};  // open loops, by the number of their step + 1
  std::set<int> loaded_, stored_;
  std::vector<std::pair<size_t, int>> accesses_;  // step and array of loads, stores as ~array
  KernelRecording* outer_ = nullptr;
};

/// A number beside a tile: of the tile's dtype, but a fraction beside integers is a float.
Tile number_beside(Scalar number, const Tile& tile);

/// Runs a program that a recording made: as rows where it is one (Note [Row kernels]), else by
/// blocks.
void run_recorded(const BlockProgram& program, std::span<const View> arrays, Device device);

}  // namespace tensora::jit
