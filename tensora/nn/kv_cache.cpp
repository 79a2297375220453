#include "tensora/nn/kv_cache.h"

#include <algorithm>

#include "tensora/autograd/grad_mode.h"
#include "tensora/base/check.h"
#include "tensora/ops.h"

namespace tensora::nn {

KVCache::KVCache(int64_t num_layers, KVCacheOptions options) : options_(options) {
  check(num_layers >= 0, "KVCache: num_layers must not be negative, got ", num_layers);
  check(!options.max_length || *options.max_length > 0,
        "KVCache: max_length must be positive, got ", options.max_length.value_or(0));
  layers_.resize(static_cast<size_t>(num_layers));
}

const KVCache::Layer& KVCache::at(int64_t layer) const {
  check(layer >= 0 && layer < num_layers(), "KVCache: layer ", layer, " is out of range for ",
        num_layers(), " layers");
  return layers_[static_cast<size_t>(layer)];
}

int64_t KVCache::capacity_for(const Layer& layer, int64_t length) const {
  if (options_.max_length) {
    check(length <= *options_.max_length, "KVCache: ", length,
          " positions do not fit into a cache with max_length=", *options_.max_length);
    return *options_.max_length;
  }
  int64_t capacity = layer.key.defined() ? layer.key.size(2) : 64;
  while (capacity < length) capacity *= 2;
  return capacity;
}

std::tuple<Tensor, Tensor> KVCache::append(int64_t number, const Tensor& key, const Tensor& value) {
  Layer& layer = at(number);
  check(key.dim() == 4 && value.dim() == 4 && key.size(0) == value.size(0) &&
            key.size(1) == value.size(1) && key.size(2) == value.size(2),
        "KVCache: expected key and value of shape [batch, heads, positions, size], got ",
        key.sizes(), " and ", value.sizes());
  const auto same_kind = [](const Tensor& held, const Tensor& added) {
    return held.size(0) == added.size(0) && held.size(1) == added.size(1) &&
           held.size(3) == added.size(3) && held.dtype() == added.dtype() &&
           held.device() == added.device();
  };
  const bool empty_layer =
      !layer.key.defined() ||
      (layer.length == 0 && !(same_kind(layer.key, key) && same_kind(layer.value, value)));
  if (empty_layer)
    layer = {};
  else
    check(same_kind(layer.key, key) && same_kind(layer.value, value), "KVCache: it holds keys of ",
          layer.key.dtype(), " ", layer.key.sizes(), ", which ", key.dtype(), " ", key.sizes(),
          " does not continue");
  const no_grad silent;
  const int64_t before = layer.length, after = before + key.size(2);
  const int64_t capacity = capacity_for(layer, after);
  const auto make_room = [&](Tensor& held, const Tensor& added) {
    if (held.defined() && held.size(2) >= capacity) return;
    const Tensor larger = empty({added.size(0), added.size(1), capacity, added.size(3)},
                                {.dtype = added.dtype(), .device = added.device()});
    if (before > 0) larger.narrow(2, 0, before).copy_(held.narrow(2, 0, before));
    held = larger;
  };
  make_room(layer.key, key);
  make_room(layer.value, value);
  layer.key.narrow(2, before, key.size(2)).copy_(key.detach());
  layer.value.narrow(2, before, key.size(2)).copy_(value.detach());
  layer.length = after;
  return {layer.key.narrow(2, 0, after), layer.value.narrow(2, 0, after)};
}

void KVCache::truncate(int64_t length) {
  check(length >= 0, "KVCache: the length must not be negative, got ", length);
  for (Layer& layer : layers_) layer.length = std::min(layer.length, length);
}

void KVCache::reorder(const Tensor& order) {
  const no_grad silent;
  for (Layer& layer : layers_) {
    if (!layer.key.defined()) continue;
    layer.key = layer.key.index_select(0, order);
    layer.value = layer.value.index_select(0, order);
  }
}

}  // namespace tensora::nn
