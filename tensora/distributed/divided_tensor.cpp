#include "tensora/distributed/divided_tensor.h"

#include <algorithm>
#include <unordered_map>

#include "tensora/autograd/grad_mode.h"
#include "tensora/base/error_kinds.h"
#include "tensora/base/fork.h"
#include "tensora/core/deferred.h"
#include "tensora/dispatch/divided.h"
#include "tensora/distributed/divided_value.h"
#include "tensora/distributed/shard_choice.h"
#include "tensora/ops.h"

namespace tensora::distributed {
namespace {

/// Which elements of a storage a tensor has.
struct Geometry {
  Shape sizes;
  Strides strides;
  int64_t offset;
  DType dtype;

  explicit Geometry(const Tensor& tensor)
      : sizes(tensor.sizes()),
        strides(tensor.strides()),
        offset(tensor.storage_offset()),
        dtype(tensor.dtype()) {}
  bool operator==(const Geometry&) const = default;
};

/// The elements of a storage: those of the tensor that it was made for, and of its views.
struct DividedStorage {
  struct Entry {
    Geometry geometry;
    std::shared_ptr<const DividedValue> value;
    uint32_t version = 0;  // of the storage, when the value was found
  };
  std::shared_ptr<const std::vector<Device>> devices;
  std::vector<Entry> entries;  // the first: the tensor that the storage was made for
};

class Registry {
 public:
  void add(Storage& storage, DividedStorage divided) {
    auto made = std::make_unique<DividedStorage>(std::move(divided));
    {
      const std::lock_guard lock(mutex_);
      storages_[&storage] = std::move(made);
    }
    storage.provide(nullptr, Owner(std::make_shared<Release>(*this, storage)));
  }
  bool holds(const Storage& storage) {
    const std::lock_guard lock(mutex_);
    return storages_.contains(&storage);
  }
  /// Calls `body` with what the storage has, or null.
  template <class Body>
  auto with(const Storage& storage, const Body& body) {
    const std::lock_guard lock(mutex_);
    const auto found = storages_.find(&storage);
    return body(found == storages_.end() ? nullptr : found->second.get());
  }

 private:
  // Ends with the storage, or when that gets memory.
  struct Release {
    Release(Registry& of, const Storage& released) : registry(of), storage(&released) {}
    Release(const Release&) = delete;
    Release& operator=(const Release&) = delete;
    ~Release() {
      std::unique_ptr<DividedStorage> ended;  // destroyed without the lock: parts may be divided
      const std::lock_guard lock(registry.mutex_);
      const auto found = registry.storages_.find(storage);
      ended = std::move(found->second);
      registry.storages_.erase(found);
    }
    Registry& registry;
    const Storage* storage;
  };

  Mutex mutex_;
  std::unordered_map<const Storage*, std::unique_ptr<DividedStorage>> storages_;
};

Registry& registry() {
  static constinit MadeOnce<Registry> made;
  return made.get();
}

/// An operand of a call.
struct Operand {
  std::shared_ptr<const DividedValue> value;  // null: not divided
  std::shared_ptr<const std::vector<Device>> devices;
};

Operand operand_of(const Tensor& tensor) {
  if (!tensor.defined() || tensor.impl().view.data || !tensor.impl().storage) return {};
  Storage& storage = *tensor.impl().storage;
  const Geometry geometry(tensor);
  std::shared_ptr<const DividedValue> base;
  const Operand found = registry().with(storage, [&](DividedStorage* divided) -> Operand {
    if (!divided) return {};
    base = divided->entries.front().value;
    for (const DividedStorage::Entry& entry : divided->entries)
      if (entry.geometry == geometry) {
        // A copy of elements that were written to since is no view of them any more.
        const bool stale = !entry.value->shares_memory && entry.version != storage.version();
        if (!stale || &entry == &divided->entries.front()) return {entry.value, divided->devices};
      }
    return {nullptr, divided->devices};
  });
  if (found.value || !found.devices) return found;
  // Found anew.
  const Tensor whole = redistributed(*base, Placement::replicate(), *found.devices)[0];
  const Tensor view = as_strided(whole, tensor.sizes(), tensor.strides(), tensor.storage_offset());
  return {
      std::make_shared<const DividedValue>(DividedValue{.placement = Placement::replicate(),
                                                        .parts = copies_of(view, *found.devices),
                                                        .shares_memory = false}),
      found.devices};
}

// A tensor without memory for `value`.
Tensor divided_tensor(const Shape& sizes, const Strides& strides, DividedValue value,
                      std::shared_ptr<const std::vector<Device>> devices) {
  const DType dtype = value.parts[0].dtype();
  const int64_t elements = storage_extent(sizes, strides, 0, "shard_");
  const Device first = devices->front();
  const auto storage = Storage::defer(static_cast<size_t>(bytes_of(dtype, elements)), first);
  const Tensor result = make_view(storage, sizes, strides, 0, dtype);
  registry().add(
      *storage,
      {.devices = std::move(devices),
       .entries = {{Geometry(result), std::make_shared<const DividedValue>(std::move(value))}}});
  return result;
}

/// Runs one call on parts.
class DividedCall {
 public:
  DividedCall(const OpBase& op, Args inputs, const void* attrs, const Infer& infer)
      : op_(op), inputs_(inputs), attrs_(attrs), infer_(infer) {
    for (const Arg& input : inputs) {
      operands_.push_back(operand_of(*input));
      if (!operands_.back().devices) continue;
      if (!devices_) devices_ = operands_.back().devices;
      check(*devices_ == *operands_.back().devices, op.name,
            ": two operands are divided among different devices");
    }
  }

  bool any() const { return devices_ != nullptr; }
  Tensors run(bool may_use_definition);
  /// Stores the result of the call in place.
  void store(const Tensor& target, const Tensor& result) const;

 private:
  Tensors run_gathered() const;
  Tensors run_divided(const ShardRule& rule, const WholeCall& call) const;
  std::vector<Tensors> run_parts(const ShardRule& rule, const ShardChoice& choice,
                                 const std::vector<Shape>& part_sizes) const;
  std::vector<TensorList> prepared(const ShardChoice& choice) const;
  Tensor represented(const OutputSpec& spec, DividedValue value) const;
  bool is_equal_everywhere(const ShardChoice& choice) const;
  int ranks() const { return static_cast<int>(devices_->size()); }

  const OpBase& op_;
  const Args inputs_;
  const void* const attrs_;
  const Infer& infer_;
  SmallVector<Operand, 4> operands_;
  std::shared_ptr<const std::vector<Device>> devices_;
};

Tensors DividedCall::run(bool may_use_definition) {
  std::optional<ShardRule> rule;
  const WholeCall call{op_, attrs_, inputs_, infer_.outputs, ranks()};
  if (has_shard_rule(op_)) rule = shard_rule(call);
  if (rule && !rule->by_definition) return run_divided(*rule, call);
  const bool defined = op_.has_reference && !op_.view && !op_.random;
  if (defined && may_use_definition) return op_.reference(op_, inputs_, attrs_);
  return run_gathered();
}

// A whole tensor with the strides of the one that stands for it.
Tensor laid_out(const Tensor& whole, const Tensor& like) {
  if (whole.strides() == like.strides() || !is_dense(like.sizes(), like.strides())) return whole;
  const Tensor result = empty_strided(like.sizes(), like.strides(),
                                      {.dtype = whole.dtype(), .device = whole.device()});
  result.copy_(whole);
  return result;
}

Tensors DividedCall::run_gathered() const {
  TensorList whole;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const Tensor& input = *inputs_[i];
    if (!operands_[i].value) {
      whole.push_back(input);
      continue;
    }
    const TensorList copies = redistributed(*operands_[i].value, Placement::replicate(), *devices_);
    whole.push_back(laid_out(copies[0], input));
  }
  Tensors results = detail::apply_all(op_, args_of(whole), attrs_);
  if (!op_.view) return results;
  for (size_t i = 0; i < results.size(); ++i)
    results[i] = represented(infer_.outputs[i], {.placement = Placement::replicate(),
                                                 .parts = copies_of(results[i], *devices_),
                                                 .shares_memory = false});
  return results;
}

// The operands as each part of the call gets them.
std::vector<TensorList> DividedCall::prepared(const ShardChoice& choice) const {
  std::vector<TensorList> operands;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const Tensor& input = *inputs_[i];
    if (!input.defined()) {
      operands.emplace_back(static_cast<size_t>(ranks()));
      continue;
    }
    const DividedValue whole{
        .placement = Placement::replicate(),
        .parts = operands_[i].value ? TensorList() : copies_of(input, *devices_)};
    const DividedValue& value = operands_[i].value ? *operands_[i].value : whole;
    TensorList parts = redistributed(value, choice.inputs[i][0], *devices_);
    for (Tensor& part : parts) {
      if (part.sizes() == input.sizes())
        part = laid_out(part, input);
      else if (input.is_contiguous())
        part = part.contiguous();
    }
    operands.push_back(std::move(parts));
  }
  return operands;
}

bool DividedCall::is_equal_everywhere(const ShardChoice& choice) const {
  const auto same = [&](const std::vector<Placements>& all) {
    return std::ranges::all_of(all, [](const Placements& one) { return one[0].is_replicate(); });
  };
  return same(choice.inputs) && same(choice.outputs);
}

// The outputs of every part.
std::vector<Tensors> DividedCall::run_parts(const ShardRule& rule, const ShardChoice& choice,
                                            const std::vector<Shape>& part_sizes) const {
  const std::vector<TensorList> operands = prepared(choice);
  const bool equal = is_equal_everywhere(choice);
  std::vector<Tensors> results;
  for (int r = 0; r < ranks(); ++r) {
    const auto rank = static_cast<size_t>(r);
    if (equal) {  // once on each device
      const auto same = std::find(devices_->begin(), devices_->begin() + r, (*devices_)[rank]);
      if (same != devices_->begin() + r) {
        results.push_back(results[static_cast<size_t>(same - devices_->begin())]);
        continue;
      }
    }
    TensorList parts;
    for (const TensorList& operand : operands) parts.push_back(operand[rank]);
    if (op_.name == "view") {  // the strides of a part may not allow it
      results.push_back({reshape(parts[0], part_sizes[rank])});
      continue;
    }
    std::optional<AttrsWithSizes> changed;
    if (!rule.sizes_attr.empty()) changed.emplace(op_, attrs_, rule.sizes_attr, part_sizes[rank]);
    results.push_back(detail::apply_all(op_, args_of(parts), changed ? changed->get() : attrs_));
  }
  return results;
}

Tensors DividedCall::run_divided(const ShardRule& rule, const WholeCall& call) const {
  std::vector<Placements> placed;
  for (const Operand& operand : operands_)
    placed.push_back({operand.value ? operand.value->placement : Placement::replicate()});
  const ShardChoice choice = choose_shards(rule, call, std::array{ranks()}, placed);
  std::vector<std::vector<Shape>> sizes(infer_.outputs.size());
  for (size_t j = 0; j < infer_.outputs.size(); ++j)
    for (int r = 0; r < ranks(); ++r)
      sizes[j].push_back(part_sizes(infer_.outputs[j].sizes, choice.outputs[j][0], ranks(), r));
  const std::vector<Tensors> results =
      run_parts(rule, choice, sizes.empty() ? std::vector<Shape>() : sizes[0]);
  Tensors outputs;
  for (size_t j = 0; j < infer_.outputs.size(); ++j) {
    DividedValue value{.placement = choice.outputs[j][0]};
    for (size_t r = 0; r < results.size(); ++r) {
      const Tensor& part = results[r][j];
      ensure(part.sizes() == sizes[j][r], op_.name, ": a part has shape ", part.sizes(),
             " instead of ", sizes[j][r]);
      if (op_.view)
        value.shares_memory &=
            operands_[0].value->shares_memory && part.shares_storage(operands_[0].value->parts[r]);
      value.parts.push_back(part);
    }
    outputs.push_back(represented(infer_.outputs[j], std::move(value)));
  }
  return outputs;
}

Tensor DividedCall::represented(const OutputSpec& spec, DividedValue value) const {
  const Strides strides = spec.row_major ? contiguous_strides(spec.sizes) : spec.strides;
  if (!op_.view) {
    if (value.is_one_tensor()) return value.parts[0];
    return divided_tensor(spec.sizes, strides, std::move(value), devices_);
  }
  Storage& storage = *inputs_[0]->impl().storage;
  const Tensor view = make_view(inputs_[0]->impl().storage, spec.sizes, strides, spec.offset,
                                value.parts[0].dtype());
  DividedStorage::Entry entry{
      Geometry(view), std::make_shared<const DividedValue>(std::move(value)), storage.version()};
  std::shared_ptr<const DividedValue> replaced;  // destroyed without the lock
  registry().with(storage, [&](DividedStorage* divided) {
    auto& entries = divided->entries;
    const auto found = std::ranges::find(entries, entry.geometry, &DividedStorage::Entry::geometry);
    if (found == entries.begin()) return;  // all of the tensor, as before
    if (found == entries.end()) {
      entries.push_back(std::move(entry));
    } else {
      replaced = std::move(found->value);
      *found = std::move(entry);
    }
  });
  return view;
}

// All elements of the tensor that a storage was made for, as a divided tensor.
Tensor base_of(const Tensor& tensor) {
  Storage& storage = *tensor.impl().storage;
  const Geometry base = registry().with(
      storage, [](DividedStorage* divided) { return divided->entries[0].geometry; });
  return make_view(tensor.impl().storage, base.sizes, base.strides, base.offset, base.dtype);
}

// Writes all elements of a tensor, or of a view whose parts are views.
void store_in_parts(const Tensor& target, const Operand& to, const DividedValue& value) {
  if (to.value->placement.is_partial()) {  // it gets the placement of the result
    auto replacing = std::make_shared<const DividedValue>(value.cast(target.dtype()));
    std::vector<DividedStorage::Entry> dropped;  // destroyed without the lock
    registry().with(*target.impl().storage, [&](DividedStorage* divided) {
      dropped.assign(divided->entries.begin() + 1, divided->entries.end());
      divided->entries.erase(divided->entries.begin() + 1, divided->entries.end());
      std::swap(divided->entries[0].value, replacing);
    });
    return;
  }
  const TensorList parts = redistributed(value, to.value->placement, *to.devices);
  for (size_t r = 0; r < parts.size(); ++r) {
    const auto begin = to.value->parts.begin(), here = begin + static_cast<int64_t>(r);
    const bool again =
        std::any_of(begin, here, [&](const Tensor& earlier) { return earlier.is_same(*here); });
    if (!again) here->copy_(parts[r]);
  }
}

Tensor whole_of(const Tensor& tensor) {
  const Operand operand = operand_of(tensor);
  if (!operand.value) return tensor;
  return redistributed(*operand.value, Placement::replicate(), *operand.devices)[0];
}

void DividedCall::store(const Tensor& target, const Tensor& result) const {
  const Operand from = operand_of(result), to = operand_of(target);
  if (!to.value) {
    target.copy_(whole_of(result));
    return;
  }
  const Tensor base = base_of(target);
  const bool is_base = Geometry(base) == Geometry(target);
  if (is_base || (to.value->shares_memory && !to.value->placement.is_partial())) {
    const DividedValue whole{.placement = Placement::replicate(),
                             .parts = from.value ? TensorList() : copies_of(result, *to.devices)};
    return store_in_parts(target, to, from.value ? *from.value : whole);
  }
  // The view is a copy, because its elements had to be moved.
  const Tensor memory =
      empty_strided(base.sizes(), base.strides(), {.dtype = base.dtype(), .device = base.device()});
  memory.copy_(whole_of(base));
  as_strided(memory, target.sizes(), target.strides(), target.storage_offset())
      .copy_(whole_of(result));
  store_in_parts(base, operand_of(base),
                 {.placement = Placement::replicate(), .parts = copies_of(memory, *to.devices)});
}

class LocalDividedTensors final : public DividedTensors {
 public:
  bool holds(const Storage& storage) override { return registry().holds(storage); }

  Tensors run(const OpBase& op, Args inputs, const void* attrs, const Infer& infer) override {
    check_as<NotImplementedError>(!writes_inputs(op), op.name,
                                  ": writes into its inputs, which cannot be divided tensors");
    return DividedCall(op, inputs, attrs, infer).run(true);
  }

  void run_inplace(const OpBase& op, Args inputs, std::span<const Tensor> targets,
                   const void* attrs, const Infer& infer) override {
    DividedCall call(op, inputs, attrs, infer);
    const Tensors results = call.any() ? call.run(true) : detail::apply_all(op, inputs, attrs);
    for (size_t i = 0; i < targets.size(); ++i) call.store(targets[i], results[i]);
  }

  Tensor empty_like(const Tensor& self, const Strides& strides, DType dtype) override {
    const Operand operand = operand_of(self);
    const Placement placement = operand.value->placement;
    const TensorOptions options{.dtype = dtype, .device = self.device()};
    if (!placement.is_shard()) return empty_strided(self.sizes(), strides, options);
    DividedValue value{.placement = placement};
    for (const Tensor& part : operand.value->parts)
      value.parts.push_back(empty(part.sizes(), {.dtype = dtype, .device = part.device()}));
    return divided_tensor(self.sizes(), strides, std::move(value), operand.devices);
  }

  void gather(Storage& storage) override {
    const no_grad silent;
    std::shared_ptr<const DividedValue> value;
    std::shared_ptr<const std::vector<Device>> devices;
    std::optional<Geometry> base;
    registry().with(storage, [&](DividedStorage* divided) {
      if (!divided) return;
      value = divided->entries[0].value;
      base = divided->entries[0].geometry;
      devices = divided->devices;
    });
    if (!value) return;
    const Tensor memory = empty_strided(base->sizes, base->strides,
                                        {.dtype = base->dtype, .device = devices->front()});
    memory.copy_(redistributed(*value, Placement::replicate(), *devices)[0]);
    storage.provide(memory.data_ptr(), Owner(std::make_shared<Tensor>(memory)));
  }
};

}  // namespace

const Tensor& shard_(const Tensor& self, const std::vector<Device>& devices,
                     std::optional<int64_t> axis) {
  check_as<ValueError>(!devices.empty(), "shard_: expected at least one device");
  for (const Device& device : devices)
    check_as<ValueError>(!device.is_meta(), "shard_: tensors on the meta device have no elements");
  check_as<ValueError>(!self.is_meta(), "shard_: a meta tensor has no elements");
  check_as<ValueError>(is_dense(self.sizes(), self.strides()) && self.storage_offset() == 0,
                       "shard_: expected a dense tensor, got strides ", self.strides());
  flush_deferred();
  check_as<ValueError>(self.impl().storage->use_count() == 1,
                       "shard_: other tensors share the memory of this one; clone it first");
  const no_grad silent;
  Placement placement;
  if (axis) placement = Placement::shard(wrap_dim(*axis, self.dim(), "shard_"));
  static LocalDividedTensors local;
  divided_tensors.store(&local, std::memory_order_release);
  const Operand before = operand_of(self);
  DividedValue value{.placement = Placement::replicate()};
  if (before.value && *before.devices == devices)
    value = *before.value;
  else
    value.parts = copies_of(
        before.value ? redistributed(*before.value, Placement::replicate(), *before.devices)[0]
                     : self.detach(),
        devices);
  DividedValue divided{.placement = placement, .parts = redistributed(value, placement, devices)};
  for (size_t r = 0; r < divided.parts.size(); ++r) {
    const auto same =
        std::find(devices.begin(), devices.begin() + static_cast<int64_t>(r), devices[r]) -
        devices.begin();
    const bool again = !axis && same < static_cast<int64_t>(r);
    divided.parts[r] = again ? divided.parts[static_cast<size_t>(same)] : divided.parts[r].clone();
  }
  const Tensor made = divided_tensor(self.sizes(), self.strides(), std::move(divided),
                                     std::make_shared<const std::vector<Device>>(devices));
  TensorImpl& impl = self.impl();
  impl.view = made.impl().view;
  impl.storage = made.impl().storage;
  return self;
}

const Tensor& unshard_(const Tensor& self) {
  if (is_sharded(self)) static_cast<void>(self.data_ptr());
  return self;
}

bool is_sharded(const Tensor& self) { return !self.impl().view.data && is_divided(self); }

Placement placement_of(const Tensor& self) {
  const Operand operand = operand_of(self);
  return operand.value ? operand.value->placement : Placement::replicate();
}

std::vector<Tensor> parts_of(const Tensor& self) {
  const Operand operand = operand_of(self);
  return operand.value ? operand.value->parts : TensorList{self};
}

}  // namespace tensora::distributed
