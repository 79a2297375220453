#include "tensora/dispatch/autocast.h"

#include <unordered_map>

#include "tensora/autograd/grad_mode.h"
#include "tensora/autograd/history.h"
#include "tensora/core/queue.h"
#include "tensora/dispatch/autocast_call.h"
#include "tensora/dispatch/op.h"

// Note [Casts of parameters]
// A step casts each weight once, however often it is used: the cast is one node of the graph, which
// all uses share, so that their gradients are added up before they are cast back. It is valid as
// long as the parameter has the storage and the version that were read, on the queue that wrote it;
// a cast that was made without recording serves only where nothing is recorded. When the outermost
// scope of the thread ends, all casts are dropped. Three things stay outside:
// - The body of a checkpoint runs twice, and must meet the same nodes outside both times; what it
//   casts belongs to the one run (`graph_region`).
// - What an interceptor sees may be deferred, and belongs to it.
// - A graph that is being captured counts no open scopes (cuda::Graph): a scope that was opened
//   before has casts that a replay would not renew; one opened within has its own.

namespace tensora {
namespace {

static_assert(sizeof(AutocastModes::dtypes) == kDeviceTypeCount);

bool is_half(DType dtype) { return dtype == DType::float16 || dtype == DType::bfloat16; }

// The graph node of the parameter, which its cast leads to.
bool leads_to(const Tensor& cast, const Tensor& leaf) {
  const Edge edge = gradient_edge(cast);
  return edge.node && edge.node->edges()[0].node == gradient_edge(leaf).node;
}

// Set when the calling thread's cache is destroyed: destructors of other thread_local objects, and
// those of static ones, may still compute.
thread_local constinit bool cache_is_gone = false;

class CastCache {
 public:
  CastCache() = default;
  CastCache(const CastCache&) = delete;
  CastCache& operator=(const CastCache&) = delete;
  ~CastCache() { cache_is_gone = true; }

  Tensor cast(const Tensor& leaf, DType dtype) {
    Casts& casts = current();
    const Queue queue = current_queue(leaf.device());
    if (const auto found = casts.find(&leaf.impl()); found != casts.end()) {
      const Entry& entry = found->second;
      if (entry.cast.dtype() == dtype && entry.storage == leaf.impl().storage &&
          entry.version == leaf.version() && entry.queue == queue &&
          (!is_grad_enabled() || leads_to(entry.cast, leaf)))
        return entry.cast;
    }
    const Tensor cast = engine_ops().cast(leaf, dtype, leaf.device());
    if (casts.size() >= limit_) sweep(casts);
    casts.insert_or_assign(&leaf.impl(),
                           Entry{leaf, leaf.impl().storage, leaf.version(), queue, cast});
    return cast;
  }

  void clear() {
    outside_.clear();
    inside_.clear();
    limit_ = kFirstLimit;
  }

 private:
  struct Entry {
    Tensor leaf;                    // owned: no other tensor can get its address
    IntrusivePtr<Storage> storage;  // that was read
    uint32_t version;
    Queue queue;
    Tensor cast;
  };
  using Casts = std::unordered_map<const TensorImpl*, Entry>;
  static constexpr size_t kFirstLimit = 256;

  Casts& current() {
    if (thread_state.graph_region == 0) return outside_;
    if (std::exchange(region_, thread_state.graph_region) != thread_state.graph_region)
      inside_.clear();
    return inside_;
  }

  // A scope around a whole program would otherwise keep what the program has long freed.
  void sweep(Casts& casts) {
    std::erase_if(casts, [](const auto& cast) { return cast.second.leaf.impl().use_count() == 1; });
    limit_ = std::max(kFirstLimit, 2 * casts.size());
  }

  Casts outside_, inside_;  // checkpoints
  uint32_t region_ = 0;     // that `inside_` belongs to
  size_t limit_ = kFirstLimit;
};

CastCache& cast_cache() {
  thread_local CastCache cache;
  return cache;
}

void clear_cast_cache() {
  if (!cache_is_gone) cast_cache().clear();
}

bool is_cacheable(const Tensor& tensor) {
  return !cache_is_gone && thread_state.autocast_scopes > 0 && thread_state.autocast.caches &&
         !thread_state.interceptor && tensor.dtype() == DType::float32 && !tensor.is_view() &&
         tensor.requires_grad() && tensor.is_leaf();
}

Tensor cast_to(const Tensor& tensor, DType dtype) {
  if (is_half(dtype) && is_cacheable(tensor)) return cast_cache().cast(tensor, dtype);
  return engine_ops().cast(tensor, dtype, tensor.device());
}

// Numbers on the host may join an op on another device, which decides.
DeviceType device_type_of(Args inputs) {
  for (const Arg& input : inputs)
    if (input->defined() && !input->device().is_cpu()) return input->device().type;
  return DeviceType::cpu;
}

bool takes_part(const Tensor& tensor, DeviceType type) {
  return tensor.defined() && tensor.device().type == type && !tensor.impl().wrapped_number &&
         (is_half(tensor.dtype()) || tensor.dtype() == DType::float32);
}

// What the inputs are cast to; none: they stay as they are.
std::optional<DType> target_of(std::string_view name, Autocast policy, DeviceType type,
                               Args inputs) {
  switch (policy) {
    case Autocast::as_is:
      return {};
    case Autocast::lower:
      return autocast_dtype(type);
    case Autocast::full:
      return DType::float32;
    case Autocast::widest:
      for (const Arg& input : inputs)
        if (takes_part(*input, type) && input->dtype() == DType::float32) return DType::float32;
      return {};
    case Autocast::refused:
      break;
  }
  fail(name, ": not safe under autocast: probabilities in half precision round to 0 and 1; use ",
       name, "_with_logits, or leave autocast: autocast off({.enabled = false})");
}

}  // namespace

autocast::autocast(const AutocastOptions& options) : saved_(thread_state.autocast) {
  check(is_half(options.dtype), "autocast: expected float16 or bfloat16, got ", options.dtype);
  AutocastModes& modes = thread_state.autocast;
  for (int type = 0; type < kDeviceTypeCount; ++type) {
    if (options.device && static_cast<int>(options.device->type) != type) continue;
    const int bit = 1 << type;
    modes.devices = static_cast<uint8_t>(options.enabled ? modes.devices | bit  //
                                                         : modes.devices & ~bit);
    modes.dtypes[type] = static_cast<uint8_t>(options.dtype);
  }
  modes.caches = options.cache_enabled;
  if (thread_state.autocast_scopes++ == 0) clear_cast_cache();
}

autocast::~autocast() {
  thread_state.autocast = saved_;
  if (--thread_state.autocast_scopes == 0) clear_cast_cache();
}

Autocast effective_policy(AutocastPolicy policy, Args inputs) {
  if (!is_autocast_enabled()) return Autocast::as_is;
  const DeviceType type = device_type_of(inputs);
  return is_autocast_enabled(type) ? policy.on(type) : Autocast::as_is;
}

AutocastCall::AutocastCall(std::string_view name, AutocastPolicy policy, Args inputs)
    : saved_(thread_state.autocast) {
  const DeviceType type = device_type_of(inputs);
  const std::optional<DType> target =
      target_of(name, effective_policy(policy, inputs), type, inputs);
  cast_.reserve(inputs.size());
  for (const Arg& input : inputs) {
    const bool changes = target && takes_part(*input, type) && input->dtype() != *target;
    if (changes)
      inputs_.emplace_back(cast_.emplace_back(cast_to(*input, *target)));
    else
      inputs_.push_back(input);
  }
  thread_state.autocast.devices = 0;
}

std::vector<Tensor> AutocastCall::tensors() const {
  std::vector<Tensor> result;
  for (const Arg& input : inputs_) result.push_back(*input);
  return result;
}

std::optional<DType> autocast_result(const Tensor& input, std::optional<DType> chosen,
                                     AutocastPolicy policy) {
  if (chosen || !is_autocast_enabled() || !input.defined()) return chosen;
  const Arg arg(input);
  const bool widens =
      is_half(input.dtype()) && effective_policy(policy, Args(&arg, 1)) == Autocast::full;
  return widens ? std::optional(DType::float32) : std::nullopt;
}

}  // namespace tensora
