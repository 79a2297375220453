#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace tensora {

/// Which kernels become one.
enum class Fuse : uint8_t {
  nothing,     // kernels are deferred, and run one by one
  what_pays,   // as the price says
  everything,  // whatever can be, for tests
};

/// How lazy scopes and compiled functions treat the kernels that they defer.
struct JitOptions {
  std::string name = {};  // of the function, in what `explain` prints
  Fuse fuse = Fuse::what_pays;
  bool strict = false;  // a group that cannot be compiled throws instead of running op by op
  /// Of compiled functions: calls of a known signature do not run the body again. See docs/jit.md.
  bool replay = false;
  /// Of replayed functions: every n-th call runs the body all the same, and throws if it did
  /// something else. 0: never.
  int verify = 0;
  /// Values of 16-bit floats that a kernel keeps to itself stay in float32. Otherwise each op
  /// rounds its result, as in eager execution.
  bool wide = false;
  /// Tensors that the function makes are to take no more than so many bytes at a time, as far as
  /// giving up values and computing them again reaches. Results have the same bits. 0: no limit.
  int64_t memory_budget = 0;
};

namespace jit {
class Recorder;
class Recording;
struct Report;
}  // namespace jit

/// Defers the kernels of this thread until their results are needed, at the latest until the scope
/// ends, so that kernels that follow one another can run as one:
/// `{ LazyScope lazy; y = gelu(x * w + b) * sigmoid(x); }`.
///
/// Everything else happens as without the scope: arguments are checked and throw at their line,
/// gradients are recorded, random numbers are the same. Reading a value (item, printing, data_ptr)
/// runs what was deferred so far. A kernel that fails (an index out of range, say) throws where it
/// runs: at such a read, or at the end of the scope. Memory that another library or an earlier
/// data_ptr() gives access to must not be written to while the scope lives.
///
/// A scope inside another one, or with TENSORA_JIT=0 in the environment, does nothing.
class LazyScope {
 public:
  explicit LazyScope(const JitOptions& options = {}, jit::Report* report = nullptr,
                     jit::Recording* recording = nullptr);
  /// Runs what is left. Throws what a kernel throws, unless an exception is already on its way.
  ~LazyScope() noexcept(false);
  LazyScope(const LazyScope&) = delete;
  LazyScope& operator=(const LazyScope&) = delete;

  /// Runs what was deferred so far.
  void flush() const;

 private:
  std::unique_ptr<jit::Recorder> recorder_;  // null: the scope does nothing
  int exceptions_;                           // on their way when the scope began
};

}  // namespace tensora
