#pragma once

#include "tensora/core/thread_state.h"
#include "tensora/dispatch/op.h"

// Note [Interceptors]
// An interceptor stands before the door: it sees a call before it runs and decides what becomes of
// it. It may let it pass (`proceed`), run it with other inputs or other ops, or not run it at all
// and return tensors that stand for the results. Interceptors form a stack per thread. The topmost
// one sees a call first; whatever it calls itself goes to the ones below it, and at the bottom is
// the door, where the parts of a composite op are reported to nobody. An interceptor that wants
// the parts instead runs the op's reference with itself installed again.
//
// What the stack is for: tracing (jit/trace.cpp) defers every call into a graph; vmap will rewrite
// a call on batched tensors to one on the arrays below them; sharding will run a call on the local
// parts and add the communication; lazy fusion will defer calls until a value is asked for. The
// last three must hear when the host reads elements, which is no op: `before_read`.
//
// The price where nothing is installed is the load and the branch at the door's entry.

namespace tensora {

/// A call of an op that has not run yet.
struct Call {
  const OpBase& op;
  Args inputs;
  const void* attrs;
  bool inplace = false;  // output number i is written into input number i
};

/// The device on which a call's inputs meet; throws, naming the op, if they do not.
Device device_of(const Call& call);

/// Sees the calls of the thread that it is installed in. See Note [Interceptors].
class Interceptor {
 public:
  Interceptor() = default;
  Interceptor(const Interceptor&) = delete;
  Interceptor& operator=(const Interceptor&) = delete;
  virtual ~Interceptor() = default;

  /// Runs, rewrites or defers a call, and returns its outputs. Autocast has already changed the
  /// inputs. What is returned for a call in place is ignored: the caller keeps its tensor.
  virtual Tensors intercept(const Call& call) = 0;
  /// The host is about to read an element of `tensor`. Whoever deferred its computation makes up
  /// for it now, or throws.
  virtual void before_read(const Tensor&) {}

  Interceptor* below() const { return below_; }

 protected:
  /// Runs a call as if this interceptor were not there. Only from within `intercept`.
  static Tensors proceed(const Call& call);

 private:
  friend class InterceptorScope;
  Interceptor* below_ = nullptr;
};

/// Puts an interceptor on top of this thread's stack for the life of the scope.
class InterceptorScope {
 public:
  explicit InterceptorScope(Interceptor& interceptor) : interceptor_(interceptor) {
    interceptor.below_ = std::exchange(thread_state.interceptor, &interceptor);
  }
  ~InterceptorScope() { thread_state.interceptor = interceptor_.below_; }
  InterceptorScope(const InterceptorScope&) = delete;
  InterceptorScope& operator=(const InterceptorScope&) = delete;

 private:
  Interceptor& interceptor_;
};

}  // namespace tensora
