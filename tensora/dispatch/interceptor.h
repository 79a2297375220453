#pragma once

#include "tensora/core/thread_state.h"
#include "tensora/dispatch/op.h"

// Note [Interceptors]
// An interceptor sees a call before the dispatcher does and decides what happens to it. It may let
// the call pass (`proceed`), run it with other inputs or as other ops, or not run it at all and
// return tensors that stand for the results. Each thread has a stack of interceptors. The topmost
// sees a call first; whatever it calls itself goes to the ones below it, and finally to the
// dispatcher, which does not report the parts of a composite op. An interceptor that wants to see
// the parts runs the op's reference with itself installed again.
//
// What the stack is for: tracing (jit/trace.cpp) defers every call into a graph; vmap will rewrite
// a call on batched tensors to one on the arrays below them; sharding will run a call on the local
// shards and add the communication; lazy fusion will defer calls until a value is needed. These
// must know when the host reads elements, which is not an op: `before_read`.
//
// If none is installed, the cost is one load and one branch per call.

namespace tensora {

/// A call of an op that has not run yet.
struct Call {
  const OpBase& op;
  Args inputs;
  const void* attrs;
  bool inplace = false;  // output number i is written into input number i
};

/// The device on which a call runs; throws, naming the op, if its inputs are on different devices.
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
  /// The host is about to read an element of `tensor`. An interceptor that deferred its computation
  /// has to perform it now, or throw.
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
