#include "tensora/distributed/sharded_checkpoints.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <ranges>
#include <unordered_map>

#include "tensora/autograd/grad_mode.h"
#include "tensora/distributed/gradient_bucket.h"
#include "tensora/distributed/tensor_pieces.h"
#include "tensora/io/pytorch.h"
#include "tensora/io/snapshot.h"
#include "tensora/ops.h"

namespace tensora::distributed {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-";
constexpr size_t kDigits = 12;  // so that names sort as the steps do

std::string model_key(const std::string& name) { return "model/" + name; }
std::string state_key(const std::string& name, const std::string& key) {
  return "optimizer/" + name + "/" + key;
}

// The ranks that save or load together. With a TensorParallel these are all ranks of the world.
ProcessGroup& savers(DataParallel& parallel, const TensorParallel* tensor) {
  if (!tensor) return parallel.group();
  check(parallel.zero_stage() == 0,
        "checkpoint: a model that is divided by shard_model goes with zero_stage 0, got ",
        parallel.zero_stage());
  return *world();
}

// Collects what this rank writes.
class Writer {
 public:
  Writer(const ProcessGroup& group, const ProcessGroup& data, const TensorParallel* tensor)
      : group_(group), data_(data), tensor_(tensor) {}

  /// A parameter that this rank has, or a state of it.
  void add_parameter(const std::string& key, const std::string& name, const Tensor& tensor) {
    const ParameterPart* const part = tensor_ ? tensor_->find_part(name) : nullptr;
    if (!part || part->placement == ParameterPart::Placement::replicated)
      add_whole(key, tensor);
    else
      add_part(key, *part, tensor.detach());
  }

  /// This rank's part of something that it has whole.
  void add_whole(const std::string& name, const Tensor& tensor) {
    const Tensor dense =
        is_dense(tensor.sizes(), tensor.strides()) ? tensor.detach() : tensor.detach().contiguous();
    const ShardRange range = shard_range(dense.numel(), group_.size(), group_.rank(), turn_++);
    pieces_.push_back({name, dense.sizes(), dense.strides(), range,
                       part_of(flat(dense), range.begin, range.size())});
  }
  void add_shard(const std::string& name, const DataParallel::Shard& shard, const Tensor& part) {
    pieces_.push_back({name,
                       shard.parameter.sizes(),
                       shard.parameter.strides(),
                       {shard.begin, shard.end},
                       part.detach()});
  }
  /// A number that all ranks have that have the parameter's state.
  void add_number(const std::string& name, const Tensor& number) {
    pieces_.push_back({name,
                       number.sizes(),
                       contiguous_strides(number.sizes()),
                       {0, number.numel()},
                       number.detach().reshape({-1})});
  }
  const std::vector<TensorPiece>& pieces() const { return pieces_; }

 private:
  // A range of rows lies side by side in the whole tensor, a range of columns in its transpose.
  void add_part(const std::string& name, const ParameterPart& part, const Tensor& local) {
    const int turn = turn_++;  // on all ranks alike
    const Tensor own = counted(part, local, tensor_->group().rank());
    if (!own.defined()) return;
    const bool divided = part.placement == ParameterPart::Placement::divided;
    const bool columns = divided && part.dim == 1;
    const int64_t line = part.sizes.numel() / part.sizes[part.dim];
    const int64_t begin = divided ? part.owned(tensor_->group().rank()).begin * line : 0;
    const Tensor elements = (columns ? own.t() : own).reshape({-1}).contiguous();
    const ShardRange range = shard_range(elements.numel(), data_.size(), data_.rank(), turn);
    pieces_.push_back({name,
                       part.sizes,
                       columns ? Strides{1, part.sizes[0]} : contiguous_strides(part.sizes),
                       {begin + range.begin, begin + range.end},
                       part_of(elements, range.begin, range.size())});
  }

  const ProcessGroup& group_;
  const ProcessGroup& data_;
  const TensorParallel* tensor_;
  std::vector<TensorPiece> pieces_;
  int turn_ = 0;
};

// The parameters by the tensors that an optimizer steps.
std::unordered_map<Tensor, DataParallel::Shard> by_stepped(const DataParallel& parallel) {
  std::unordered_map<Tensor, DataParallel::Shard> shards;
  for (const DataParallel::Shard& shard : parallel.shards())
    shards[shard.shard.defined() ? shard.shard : shard.parameter] = shard;
  return shards;
}

void add_optimizer(Writer& writer, const DataParallel& parallel,
                   const optim::Optimizer& optimizer) {
  const auto shards = by_stepped(parallel);
  const Value states = optimizer.state_dict();
  int64_t index = 0;
  for (const optim::ParamGroup& group : optimizer.param_groups())
    for (const Tensor& stepped : group.params) {
      const Value* const state = states.at("state").find(index++);
      if (!state || state->size() == 0) continue;
      const auto found = shards.find(stepped);
      check(found != shards.end(), "checkpoint: the optimizer steps a tensor of shape ",
            stepped.sizes(), " that is no parameter of the model");
      const DataParallel::Shard& shard = found->second;
      for (const auto& [key, value] : state->to_dict()) {
        const std::string name = state_key(shard.name, std::get<std::string>(key));
        if (value.is_number()) {
          writer.add_number(name, full({}, value.to_double(), {.dtype = kFloat64}));
          continue;
        }
        if (value.is_none()) continue;
        const Tensor& tensor = value.to_tensor();
        if (tensor.sizes() != stepped.sizes() || stepped.dim() == 0)
          writer.add_number(name, tensor);
        else if (shard.shard.defined())
          writer.add_shard(name, shard, tensor);
        else
          writer.add_parameter(name, shard.name, tensor);
      }
    }
}

// The options of the groups, with the names of their parameters.
Value named_groups(const DataParallel& parallel, const optim::Optimizer& optimizer) {
  const auto shards = by_stepped(parallel);
  Value groups = Value::list();
  for (const optim::ParamGroup& group : optimizer.param_groups()) {
    Value::Dict packed = group.options;
    Value names = Value::list();
    for (const Tensor& stepped : group.params)
      if (const auto found = shards.find(stepped); found != shards.end())
        names.push_back(found->second.name);
    packed.emplace_back("params", std::move(names));
    groups.push_back(std::move(packed));
  }
  return groups;
}

// The part of a whole tensor that belongs to the rank's shard of `shard`.
Tensor shard_part(const DataParallel::Shard& shard, const Tensor& whole) {
  const Tensor laid_out = make_tensor(shard.parameter.sizes(), shard.parameter.strides(),
                                      whole.dtype(), Device(DeviceType::cpu));
  laid_out.copy_(whole);
  return part_of(flat(laid_out), shard.begin, shard.end - shard.begin);
}

// What this rank has of the parameter or a state of it.
Tensor own_part(const TensorParallel* tensor, const std::string& name, const Tensor& whole) {
  const ParameterPart* const part = tensor ? tensor->find_part(name) : nullptr;
  return part ? part_of_whole(*part, whole, tensor->group().rank()) : whole;
}
Shape whole_sizes(const TensorParallel* tensor, const std::string& name, const Tensor& local) {
  const ParameterPart* const part = tensor ? tensor->find_part(name) : nullptr;
  return part ? part->sizes : local.sizes();
}

std::unordered_map<std::string, DataParallel::Shard> sharded_by_name(const DataParallel& parallel) {
  std::unordered_map<std::string, DataParallel::Shard> sharded;
  for (const DataParallel::Shard& shard : parallel.shards())
    if (shard.shard.defined()) sharded[shard.name] = shard;
  return sharded;
}

void check_model(const PieceIndex& index, const nn::Module& model, const DataParallel& parallel,
                 const TensorParallel* tensor_parallel) {
  const auto sharded = sharded_by_name(parallel);
  for (const auto& [name, tensor] : model.state_dict())
    check((tensor.is_meta() && !sharded.contains(name)) ||
              index.sizes_of(model_key(name)) == whole_sizes(tensor_parallel, name, tensor),
          "checkpoint: there is no '", name, "' of shape ",
          whole_sizes(tensor_parallel, name, tensor));
}

void load_model(const PieceIndex& index, nn::Module& model, const DataParallel& parallel,
                const TensorParallel* tensor_parallel) {
  const auto sharded = sharded_by_name(parallel);
  for (const auto& [name, tensor] : model.state_dict()) {
    const auto found = sharded.find(name);
    if (tensor.is_meta() && found == sharded.end()) continue;
    const Tensor whole = index.load(model_key(name));
    if (!tensor.is_meta())
      tensor.copy_(own_part(tensor_parallel, name, whole));
    else
      found->second.shard.detach().copy_(shard_part(found->second, whole));
  }
}

void load_optimizer(const PieceIndex& index, const Value& saved_groups,
                    const DataParallel& parallel, optim::Optimizer& optimizer,
                    const TensorParallel* tensor) {
  const auto shards = by_stepped(parallel);
  check(saved_groups.size() == optimizer.param_groups().size(), "checkpoint: expected ",
        optimizer.param_groups().size(), " parameter groups, got ", saved_groups.size());
  Value states = Value::dict(), groups = Value::list();
  int64_t number = 0;
  for (size_t g = 0; g < optimizer.param_groups().size(); ++g) {
    Value::Dict packed;
    for (const auto& [key, value] : saved_groups.to_list()[g].to_dict())
      if (std::get<std::string>(key) != "params") packed.emplace_back(key, value);
    Value numbers = Value::list();
    for (const Tensor& stepped : optimizer.param_groups()[g].params) {
      const int64_t own = number++;
      numbers.push_back(own);
      const auto found = shards.find(stepped);
      if (found == shards.end() || stepped.numel() == 0) continue;
      const std::string prefix = state_key(found->second.name, "");
      Value state = Value::dict();
      for (const std::string& name : index.names()) {
        if (!name.starts_with(prefix)) continue;
        Tensor whole = index.load(name);
        const DataParallel::Shard& shard = found->second;
        const bool like = whole.sizes() == whole_sizes(tensor, shard.name, shard.parameter);
        // A parameter without dims has the shape of a count of steps, and its shard has one dim.
        if (like && (whole.dim() > 0 || shard.shard.defined()))
          whole = shard.shard.defined() ? shard_part(shard, whole)
                                        : own_part(tensor, shard.name, whole);
        state[name.substr(prefix.size())] = whole;
      }
      if (state.size() > 0) states[own] = std::move(state);
    }
    packed.emplace_back("params", std::move(numbers));
    groups.push_back(std::move(packed));
  }
  Value all = Value::dict();
  all["state"] = std::move(states);
  all["param_groups"] = std::move(groups);
  optimizer.load_state_dict(all);
}

}  // namespace

ShardedCheckpoints::ShardedCheckpoints(std::string folder, int keep_last)
    : folder_(std::move(folder)), keep_last_(keep_last) {
  check(keep_last >= 0, "ShardedCheckpoints: keep_last must not be negative, got ", keep_last);
}

std::string ShardedCheckpoints::path_of(int64_t step) const {
  const std::string digits = std::to_string(step);
  return concat(folder_, "/", kPrefix, std::string(kDigits - std::min(kDigits, digits.size()), '0'),
                digits);
}

std::vector<int64_t> ShardedCheckpoints::steps() const {
  std::vector<int64_t> found;
  std::error_code none;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_, none)) {
    const std::string name = entry.path().filename();
    int64_t step = -1;
    if (name.starts_with(kPrefix))
      std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), step);
    if (step >= 0 && path_of(step) == entry.path() && fs::exists(entry.path() / "index.json"))
      found.push_back(step);
  }
  std::sort(found.begin(), found.end());
  return found;
}

/// What a rank writes.
struct ShardedCheckpoints::Contents {
  int64_t step = 0;
  std::vector<TensorPiece> pieces;
  Value rest;  // on rank 0
};

ShardedCheckpoints::Contents ShardedCheckpoints::collect(int64_t step, const nn::Module& model,
                                                         DataParallel& parallel,
                                                         const optim::Optimizer& optimizer,
                                                         const Value& extra,
                                                         const TensorParallel* tensor) const {
  check(step >= 0, "ShardedCheckpoints: the step must not be negative, got ", step);
  const ProcessGroup& group = savers(parallel, tensor);
  Writer writer(group, parallel.group(), tensor);
  const auto sharded = sharded_by_name(parallel);
  for (const auto& [name, value] : model.state_dict()) {
    const auto found = sharded.find(name);
    if (found != sharded.end())
      writer.add_shard(model_key(name), found->second, found->second.shard);
    else if (!value.is_meta())  // a second name of a sharded parameter
      writer.add_parameter(model_key(name), name, value);
  }
  add_optimizer(writer, parallel, optimizer);
  Contents contents{.step = step, .pieces = writer.pieces(), .rest = Value::dict()};
  if (group.rank() != 0) return contents;
  contents.rest["param_groups"] = named_groups(parallel, optimizer);
  contents.rest["extra"] = extra;
  return contents;
}

void ShardedCheckpoints::write(const Contents& contents, ProcessGroup& group) const {
  const no_grad silent;
  const bool first = group.rank() == 0;
  const std::string folder = path_of(contents.step);
  if (first) {
    std::error_code error;
    fs::remove(folder + "/index.json", error);  // what is there is not complete from now on
    fs::remove_all(folder, error);
    fs::create_directories(folder, error);
    check(!error, folder, ": cannot be created: ", error.message());
  }
  group.barrier();
  const auto file_of = [&](int rank) {
    return concat("rank-", rank, "-of-", group.size(), ".safetensors");
  };
  write_pieces(folder, file_of(group.rank()), contents.pieces);
  if (first) io::save_pytorch(contents.rest, folder + "/state.pt");
  group.barrier();
  if (first) {
    std::vector<std::string> files;
    for (int rank = 0; rank < group.size(); ++rank) files.push_back(file_of(rank));
    PieceIndex::of_files(folder, files).write(folder, contents.step, {"state.pt"});
    remove_old(contents.step);
  }
  group.barrier();
}

void ShardedCheckpoints::save(int64_t step, const nn::Module& model, DataParallel& parallel,
                              const optim::Optimizer& optimizer, const Value& extra,
                              const TensorParallel* tensor) {
  const no_grad silent;
  wait();
  write(collect(step, model, parallel, optimizer, extra, tensor), savers(parallel, tensor));
}

void ShardedCheckpoints::save_in_background(int64_t step, const nn::Module& model,
                                            DataParallel& parallel,
                                            const optim::Optimizer& optimizer, const Value& extra,
                                            const TensorParallel* tensor) {
  const no_grad silent;
  wait();
  // The thread's calls must not come between those of the training.
  if (!background_) background_ = savers(parallel, tensor).split(0, 0, "checkpoints");
  Contents contents = collect(step, model, parallel, optimizer, extra, tensor);
  for (TensorPiece& piece : contents.pieces)
    piece.elements = piece.elements.is_cpu() ? piece.elements.clone() : piece.elements.cpu();
  contents.rest = io::snapshot(contents.rest);
  thread_ = std::jthread([this, contents = std::move(contents)] {
    try {
      write(contents, *background_);
    } catch (const std::exception& error) {
      error_ = std::current_exception();
      background_->abort_group(concat("a checkpoint could not be written: ", error.what()));
    }
  });
}

void ShardedCheckpoints::wait() {
  if (thread_.joinable()) thread_.join();
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void ShardedCheckpoints::remove_old(int64_t newest) const {
  if (keep_last_ == 0) return;
  std::vector<int64_t> old = steps();
  std::erase_if(old, [&](int64_t step) { return step > newest; });
  old.resize(old.size() - std::min(old.size(), static_cast<size_t>(keep_last_)));
  std::error_code ignored;
  for (const int64_t step : old) {
    fs::remove(path_of(step) + "/index.json", ignored);
    fs::remove_all(path_of(step), ignored);
  }
}

std::optional<ShardedCheckpoints::Loaded> ShardedCheckpoints::load_latest(
    nn::Module& model, DataParallel& parallel, optim::Optimizer& optimizer,
    const TensorParallel* tensor_parallel) const {
  const no_grad silent;
  ProcessGroup& group = savers(parallel, tensor_parallel);
  group.barrier();  // no rank looks while another one still writes
  const std::vector<int64_t> present = steps();
  std::vector<std::string> skipped;
  for (const int64_t step : present | std::views::reverse) {
    const std::string folder = path_of(step);
    std::optional<PieceIndex> index;
    Value rest;
    std::string damage;
    try {
      index = PieceIndex::open(folder);
      rest = io::load_pytorch(folder + "/state.pt");
    } catch (const Error& error) {
      damage = error.what();
    }
    if (sum_over_ranks(damage.empty() ? 0 : 1, group) > 0) {
      skipped.push_back(damage.empty() ? folder + ": another rank cannot read it" : damage);
      continue;
    }
    check_model(*index, model, parallel, tensor_parallel);
    load_optimizer(*index, rest.at("param_groups"), parallel, optimizer, tensor_parallel);
    load_model(*index, model, parallel, tensor_parallel);
    return Loaded{index->step(), rest.at("extra"), folder, std::move(skipped)};
  }
  check(skipped.empty(), "checkpoint: none of the ", skipped.size(), " checkpoints in ", folder_,
        " is usable; the newest: ", skipped.empty() ? std::string() : skipped.front());
  return {};
}

}  // namespace tensora::distributed
