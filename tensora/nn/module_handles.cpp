#include "tensora/nn/module_handles.h"

#include <algorithm>
#include <typeinfo>

#include "tensora/base/check.h"

namespace tensora::nn {

namespace {

uintptr_t address_of(const void* object) { return reinterpret_cast<uintptr_t>(object); }

}  // namespace

// Never destroyed: a module may be a static object, which is destroyed at any time.
ModuleHandles& ModuleHandles::all() {
  static ModuleHandles* const handles = new ModuleHandles;
  return *handles;
}

void ModuleHandles::add(Module& module, size_t size) {
  ModuleHandles& self = all();
  const std::lock_guard lock(self.mutex_);
  self.handles_.insert_or_assign(address_of(&module),
                                 Handle{&module, size, module.state_.get(), {}});
}

void ModuleHandles::remove(const Module& module) {
  ModuleHandles& self = all();
  const std::lock_guard lock(self.mutex_);
  self.handles_.erase(address_of(&module));
}

void ModuleHandles::list(const Module& child, const std::shared_ptr<ModuleState>& parent) {
  ModuleHandles& self = all();
  const std::lock_guard lock(self.mutex_);
  const auto found = self.handles_.find(address_of(&child));
  if (found != self.handles_.end()) found->second.listed_in.emplace_back(parent);
}

void ModuleHandles::bind(Module& module, const std::shared_ptr<ModuleState>& state) {
  ModuleHandles& self = all();
  const std::shared_ptr<ModuleState> old = module.state_;  // destroyed after the lock is released
  const std::lock_guard lock(self.mutex_);
  module.state_ = state;
  const auto found = self.handles_.find(address_of(&module));
  if (found != self.handles_.end()) found->second.state = state.get();
}

// Objects nest, so the innermost object around an address is the last one that begins before it and
// ends after it.
ModuleHandles::Map::iterator ModuleHandles::find_around(uintptr_t address) {
  auto next = handles_.lower_bound(address);
  while (next != handles_.begin()) {
    --next;
    if (next->first + next->second.size > address) return next;
  }
  return handles_.end();
}

Module* ModuleHandles::around(const void* address) {
  ModuleHandles& self = all();
  const std::lock_guard lock(self.mutex_);
  const auto found = self.find_around(address_of(address));
  return found == self.handles_.end() ? nullptr : found->second.module;
}

std::vector<std::shared_ptr<ModuleState>> ModuleHandles::parents_listing(const Module& child) {
  ModuleHandles& self = all();
  std::vector<std::shared_ptr<ModuleState>> parents;
  const std::lock_guard lock(self.mutex_);
  const auto found = self.handles_.find(address_of(&child));
  if (found == self.handles_.end()) return parents;
  for (const auto& parent : found->second.listed_in)
    if (auto living = parent.lock()) parents.push_back(std::move(living));
  return parents;
}

std::vector<Module*> ModuleHandles::members(const ModuleState& parent, const ModuleState& child) {
  ModuleHandles& self = all();
  std::vector<Module*> result;
  const std::lock_guard lock(self.mutex_);
  for (const auto& [address, handle] : self.handles_) {
    if (handle.state != &child) continue;
    const auto owner = self.find_around(address);
    if (owner != self.handles_.end() && owner->second.state == &parent)
      result.push_back(handle.module);
  }
  return result;
}

std::vector<void*> ModuleHandles::same_member(const Module& handle, const void* member) {
  ModuleHandles& self = all();
  std::vector<void*> result;
  const auto offset = static_cast<const char*>(member) - reinterpret_cast<const char*>(&handle);
  const std::lock_guard lock(self.mutex_);
  for (const auto& [address, other] : self.handles_) {
    if (other.state != handle.state_.get() || other.module == &handle) continue;
    if (typeid(*other.module) == typeid(handle))
      result.push_back(reinterpret_cast<char*>(other.module) + offset);
  }
  return result;
}

// ---- assignment
// ----------------------------------------------------------------------------------

std::vector<ModulePtr> ModuleHandles::entries(const ModuleState& parent, const ModuleState* child) {
  std::vector<ModulePtr> result;
  for (const auto& [name, module] : parent.children)
    if (module && module->state_.get() == child) result.push_back(module);
  return result;
}

void ModuleHandles::replace(const Module& layer, const Tensor& member, const Tensor& value) {
  ModuleState& state = *layer.state_;
  std::vector<Tensor*> entries;
  for (auto& [name, tensor] : state.parameters) entries.push_back(&tensor);
  for (auto& buffer : state.buffers) entries.push_back(&buffer.tensor);
  // In `member = register_parameter(…)` the new tensor is registered already.
  const auto holds_value = [&](const Tensor* entry) { return entry->is_same(value); };
  if (value.defined() && std::ranges::any_of(entries, holds_value)) return;
  std::erase_if(entries, [&](const Tensor* entry) { return !entry->is_same(member); });
  if (entries.empty()) return;
  check(entries.size() == 1, layer.name(), ": the ", member.defined() ? "tensor" : "empty member",
        " that is assigned to is registered under ", entries.size(),
        " names, and it is not known which of them is meant; set it where the layer is made");
  for (void* place : same_member(layer, &member)) {
    Tensor& other = *static_cast<ModuleTensor*>(place);
    if (other.is_same(member)) other = value;
  }
  *entries[0] = value;
}

ModuleTensor& ModuleTensor::operator=(const ModuleTensor& other) & {
  if (is_same(other)) return *this;
  if (const Module* layer = ModuleHandles::around(this))
    ModuleHandles::replace(*layer, *this, other);
  static_cast<Tensor&>(*this) = other;
  return *this;
}

void Module::enlist(size_t size) { ModuleHandles::add(*this, size); }

void Module::assign(const Module& other) {
  fail(name(), ": a ", other.name(),
       " cannot be assigned to it; both must be of one class that derives from nn::Layer<itself> "
       "and "
       "can be copied");
}

Module& Module::operator=(const Module& other) {
  if (state_ == other.state_) return *this;
  const std::shared_ptr<ModuleState> old = state_;
  if (const auto parents = ModuleHandles::parents_listing(*this); !parents.empty()) {
    // A module in a list of children: the members that are handles to it follow.
    std::vector<Module*> members;
    for (const auto& parent : parents) {
      const auto found = ModuleHandles::members(*parent, *old);
      check(found.empty() || ModuleHandles::entries(*parent, old.get()).size() == 1, name(),
            ": the module that is assigned to is registered under several names; say which with "
            "replace_module(name, module)");
      members.insert(members.end(), found.begin(), found.end());
    }
    ModuleHandles::bind(*this, other.state_);
    for (Module* member : members) member->assign(other);
    return *this;
  }
  if (const Module* layer = ModuleHandles::around(this)) {
    const ModuleState& parent = *layer->state_;
    const auto entries = ModuleHandles::entries(parent, old.get());
    if (!entries.empty() && ModuleHandles::entries(parent, other.state_.get()).empty()) {
      check(&parent != other.state_.get(), layer->name(), ": a module cannot contain itself");
      check(entries.size() == 1, layer->name(),
            ": the module that is assigned to is registered under ", entries.size(),
            " names; say which with replace_module(name, module)");
      entries[0]->assign(other);  // and with it this member
    }
  }
  ModuleHandles::bind(*this, other.state_);
  return *this;
}

void Module::replace_child(const std::string& name, ModulePtr module) {
  check(module->state_ != state_, this->name(), ": a module cannot contain itself");
  const auto entry = std::ranges::find(state_->children, name, &NamedModules::value_type::first);
  check(entry != state_->children.end(), "replace_module: ", this->name(), " has no module '", name,
        "'; register_module adds one");
  const ModulePtr old = entry->second;
  if (old && ModuleHandles::entries(*state_, old->state_.get()).size() == 1) {
    const Module &before = *old, &after = *module;
    if (typeid(before) == typeid(after)) return old->assign(after);
    check(ModuleHandles::members(*state_, *old->state_).empty(), "replace_module: the member for '",
          name, "' is a ", before.name(), " and cannot hold a ", after.name());
  }
  ModuleHandles::list(*module, state_);
  entry->second = std::move(module);
}

}  // namespace tensora::nn
