#include "tensora/distributed/parameter_check.h"

#include <algorithm>

#include "tensora/autograd/grad_mode.h"
#include "tensora/base/error_kinds.h"
#include "tensora/dispatch/data_of.h"
#include "tensora/distributed/gradient_bucket.h"
#include "tensora/distributed/shard_layout.h"
#include "tensora/ops.h"

namespace tensora::distributed {
namespace {

constexpr int64_t kPieceBytes = int64_t{25} << 20;

// FNV-1a.
int64_t hash_of(std::string_view text) {
  uint64_t hash = 0xCBF29CE484222325u;
  for (const char letter : text) hash = (hash ^ static_cast<uint8_t>(letter)) * 0x100000001B3u;
  return static_cast<int64_t>(hash);
}

std::string description(const std::string& name, const Tensor& tensor) {
  return concat(name, " ", tensor.dtype(), " ", tensor.sizes(), " ", tensor.strides(),
                tensor.requires_grad() ? "" : " frozen");
}

// What each rank has sent, one row per rank.
std::vector<std::vector<int64_t>> gathered(const std::vector<int64_t>& own, Device device,
                                           ProcessGroup& group) {
  const auto count = static_cast<int64_t>(own.size());
  // The host reads what came, which it cannot on the meta device.
  const Device at = device.is_meta() ? Device(DeviceType::cpu) : device;
  const Tensor sent = tensor(own, {.dtype = kInt64}).to(at);
  const Tensor all = empty({group.size() * count}, {.dtype = kInt64, .device = at});
  group.all_gather(data_of(all), data_of(sent))->wait();
  const std::vector<int64_t> flat_rows = to_vector<int64_t>(all);
  std::vector<std::vector<int64_t>> rows;
  for (auto row = flat_rows.begin(); row != flat_rows.end(); row += count)
    rows.emplace_back(row, row + count);
  return rows;
}

}  // namespace

void check_same_parameters(const nn::Module& model, ProcessGroup& group) {
  const nn::NamedTensors named = model.named_parameters();
  const Device device = named.front().second.device();
  std::vector<int64_t> hashes;
  for (const auto& [name, tensor] : named) hashes.push_back(hash_of(description(name, tensor)));
  const auto counts = gathered({static_cast<int64_t>(hashes.size())}, device, group);
  for (size_t rank = 0; rank < counts.size(); ++rank)
    check_as<RankMismatchError>(counts[rank] == counts[0], "data_parallel: the model has ",
                                counts[0][0], " parameters on rank 0 and ", counts[rank][0],
                                " on rank ", rank);
  const auto rows = gathered(hashes, device, group);
  for (size_t rank = 0; rank < rows.size(); ++rank)
    for (size_t i = 0; i < hashes.size(); ++i)
      check_as<RankMismatchError>(
          rows[rank][i] == rows[0][i], "data_parallel: parameter ", i, " of rank ", rank,
          " differs from that of rank 0 in its name, dtype, shape, strides or requires_grad; on "
          "this rank, ",
          group.rank(), ", it is: ", description(named[i].first, named[i].second));
}

void broadcast_from_first(const nn::Module& model, ProcessGroup& group) {
  const no_grad silent;
  TensorList tensors = model.parameters();
  for (const Tensor& buffer : model.buffers()) tensors.push_back(buffer);
  std::vector<BucketItem> items;
  for (const Tensor& tensor : tensors)
    items.push_back({static_cast<int64_t>(tensor.nbytes()), tensor.dtype(), tensor.device()});
  for (const std::vector<size_t>& bucket : plan_buckets(items, kPieceBytes, kPieceBytes)) {
    TensorList parts;
    for (const size_t i : bucket) parts.push_back(tensors[i].detach().reshape({-1}));
    const Tensor sent = parts.size() == 1 ? parts[0].contiguous() : cat(parts);
    group.broadcast(data_of(sent), 0)->wait();
    int64_t at = 0;
    for (const size_t i : bucket) {
      const Tensor& tensor = tensors[i];
      tensor.detach().copy_(sent.narrow(0, at, tensor.numel()).reshape(tensor.sizes()));
      at += tensor.numel();
    }
  }
}

}  // namespace tensora::distributed
