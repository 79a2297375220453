#include "tensora/train/token_windows.h"

#include <algorithm>

#include "tensora/ops.h"

namespace tensora::train {
namespace {

// SplitMix64.
uint64_t mixed(uint64_t bits) {
  bits += 0x9E3779B97F4A7C15u;
  bits = (bits ^ bits >> 30) * 0xBF58476D1CE4E5B9u;
  bits = (bits ^ bits >> 27) * 0x94D049BB133111EBu;
  return bits ^ bits >> 31;
}

}  // namespace

uint64_t hash_key(uint64_t seed, uint64_t first, uint64_t second) {
  return mixed(mixed(mixed(seed) ^ first) ^ second);
}

TokenWindows::TokenWindows(std::vector<int32_t> tokens, int64_t context)
    : tokens_(std::move(tokens)), context_(context) {
  check(context >= 1, "TokenWindows: context must be at least 1, got ", context);
  check(size() > context, "the text has ", size(), " tokens, which is too short for a context of ",
        context, ": it takes one more than that");
}

TokenWindows::Pair TokenWindows::random(uint64_t key, int64_t batch) const {
  std::vector<int64_t> places;
  const auto choices = static_cast<uint64_t>(size() - context_);
  for (int64_t row = 0; row < batch; ++row)
    places.push_back(static_cast<int64_t>(hash_key(key, static_cast<uint64_t>(row)) % choices));
  return take(places);
}

TokenWindows::Pair TokenWindows::even(int64_t index, int64_t count, int64_t batch) const {
  std::vector<int64_t> places;
  const auto last = static_cast<double>(size() - context_ - 1);
  const int64_t all = std::max<int64_t>(1, count * batch - 1);
  for (int64_t row = 0; row < batch; ++row)
    places.push_back(static_cast<int64_t>(last * double(index * batch + row) / double(all)));
  return take(places);
}

TokenWindows::Pair TokenWindows::take(const std::vector<int64_t>& places) const {
  const auto batch = static_cast<int64_t>(places.size());
  const Pair out{empty({batch, context_}, {.dtype = kInt64}),
                 empty({batch, context_}, {.dtype = kInt64})};
  auto* inputs = out.inputs.data_ptr<int64_t>();
  auto* targets = out.targets.data_ptr<int64_t>();
  for (const int64_t place : places) {
    const int32_t* from = tokens_.data() + place;
    inputs = std::copy(from, from + context_, inputs);
    targets = std::copy(from + 1, from + 1 + context_, targets);
  }
  return out;
}

}  // namespace tensora::train
