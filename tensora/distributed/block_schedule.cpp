#include "tensora/distributed/block_schedule.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "tensora/autograd/checkpoint_run.h"
#include "tensora/autograd/grad_mode.h"
#include "tensora/base/check.h"

namespace tensora::distributed {
namespace {

bool is_list(const nn::Module& module) {
  const std::string name = module.name();
  return name == "ModuleList" || name == "Sequential";
}

// The members of the outermost lists.
void find_blocks(const nn::Module& module, const std::string& path,
                 std::vector<std::string>& found) {
  for (const auto& [name, child] : module.named_children()) {
    if (!child) continue;
    const std::string child_path = path.empty() ? name : path + "." + name;
    if (is_list(module))
      found.push_back(child_path);
    else
      find_blocks(*child, child_path, found);
  }
}

}  // namespace

std::vector<ModuleSlots> slots_by_module(nn::Module& model, const std::vector<std::string>& paths,
                                         const std::vector<std::unique_ptr<Slot>>& slots) {
  std::vector<std::string> chosen = paths;
  if (chosen.empty()) find_blocks(model, "", chosen);
  std::vector<ModuleSlots> result{{&model, {}}};
  std::unordered_map<Tensor, std::set<size_t>> users;  // the units by parameter
  std::set<const nn::Module*> in_blocks;
  for (const std::string& path : chosen) {
    nn::Module& block = model.get_submodule(path);
    const size_t unit = result.size();
    result.push_back({&block, {}});
    for (const Tensor& param : block.parameters()) users[param].insert(unit);
    in_blocks.insert(&block);
    for (const auto& [name, inner] : block.named_modules()) in_blocks.insert(inner.get());
  }
  for (const Tensor& param : model.parameters(false)) users[param].insert(0);
  for (const auto& [name, module] : model.named_modules())
    if (!in_blocks.contains(module.get()))
      for (const Tensor& param : module->parameters(false)) users[param].insert(0);
  for (size_t i = 0; i < slots.size(); ++i) {
    const std::set<size_t>& of = users[slots[i]->param];
    result[of.size() == 1 ? *of.begin() : 0].slots.push_back(i);
  }
  return result;
}

BlockSchedule::BlockSchedule(std::vector<Unit> units) : units_(std::move(units)) {
  for (size_t i = 0; i < units_.size(); ++i) watch(i);
}

BlockSchedule::~BlockSchedule() {
  for (const std::function<void()>& remove : removers_) remove();
  while (!units_.empty()) units_.pop_back();
}

void BlockSchedule::watch(size_t unit) {
  nn::Module& module = *units_[unit].module;
  removers_.push_back(module.register_forward_pre_hook(
      [this, unit](nn::Module&, TensorList&) { before_forward(unit); }));
  removers_.push_back(module.register_forward_hook(
      [this, unit](nn::Module&, const TensorList&, TensorList& outputs) {
        after_forward(unit, outputs);
      }));
}

std::unique_ptr<PackedTensor> BlockSchedule::pack(const Tensor& tensor) {
  for (Unit& unit : units_) {
    if (!unit.whole) continue;
    for (const std::unique_ptr<ShardedBlock>& block : unit.blocks)
      if (std::unique_ptr<PackedTensor> packed = block->pack(tensor)) return packed;
  }
  return nullptr;
}

// `ahead`: the unit to be gathered meanwhile, or -1.
void BlockSchedule::gather(size_t unit, int ahead) {
  for (const std::unique_ptr<ShardedBlock>& block : units_[unit].blocks) block->begin_gather();
  if (ahead >= 0)
    for (const std::unique_ptr<ShardedBlock>& block : units_[static_cast<size_t>(ahead)].blocks)
      block->begin_gather();
  for (const std::unique_ptr<ShardedBlock>& block : units_[unit].blocks) block->gather();
  units_[unit].whole = true;
}

void BlockSchedule::release(size_t unit) {
  if (pins_ > 0) return;
  for (const std::unique_ptr<ShardedBlock>& block : units_[unit].blocks) block->release();
  units_[unit].whole = false;
}

void BlockSchedule::before_forward(size_t unit) {
  Unit& mine = units_[unit];
  const bool again = is_checkpoint_rerun();
  if (unit == 0 && !again) {
    // A forward that threw left its scopes open.
    for (size_t i = units_.size(); i-- > 0;) units_[i].packing = nullptr;
    last_ = -1;
  }
  gather(unit, again ? mine.previous : mine.next);
  if (unit > 0 && !again) {
    if (last_ >= 0) units_[static_cast<size_t>(last_)].next = static_cast<int>(unit);
    mine.previous = last_;
    last_ = static_cast<int>(unit);
  }
  if (unit > 0 && is_grad_enabled() && !mine.packing)
    mine.packing =
        std::make_unique<SavedTensorHooks>([this](const Tensor& tensor) { return pack(tensor); });
}

void BlockSchedule::after_forward(size_t unit, const TensorList& outputs) {
  Unit& mine = units_[unit];
  mine.packing = nullptr;
  const bool recorded = is_grad_enabled();
  if (unit == 0) {
    if (!recorded) release_all();
    return;
  }
  if (recorded)
    for (const Tensor& output : outputs)
      if (output.defined() && output.requires_grad())
        output.register_hook([this, unit](const Tensor&) {
          gather(unit, units_[unit].previous);
          return Tensor();
        });
  if (!is_checkpoint_rerun()) release(unit);  // otherwise its backward comes next
}

void BlockSchedule::on_gradients(const std::vector<Slot*>& slots) {
  for (size_t i = 1; i < units_.size(); ++i)
    for (const std::unique_ptr<ShardedBlock>& block : units_[i].blocks)
      if (block->slots() == slots) {
        if (++units_[i].reduced == units_[i].blocks.size()) release(i);
        return;
      }
}

void BlockSchedule::release_all() {
  for (size_t i = 0; i < units_.size(); ++i) {
    units_[i].reduced = 0;
    release(i);
  }
}

void BlockSchedule::pin() {
  ++pins_;
  for (size_t i = 0; i < units_.size(); ++i) gather(i, -1);
}

void BlockSchedule::unpin() {
  if (--pins_ == 0) release_all();
}

void BlockSchedule::reload_shards() {
  for (const Unit& unit : units_)
    for (const std::unique_ptr<ShardedBlock>& block : unit.blocks) block->reload_shards();
}

}  // namespace tensora::distributed
