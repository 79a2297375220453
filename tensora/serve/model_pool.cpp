#include "tensora/serve/model_pool.h"

#include <algorithm>
#include <chrono>
#include <ctime>

#include "tensora/base/check.h"
#include "tensora/serve/embedder.h"
#include "tensora/serve/worker_pool.h"

namespace tensora::serve {
namespace {

// How long a request waits for another model to become idle, so that this one can be loaded.
constexpr auto kPatience = std::chrono::seconds(60);
// A model becomes idle when its last answer ends; nobody tells.
constexpr auto kLook = std::chrono::milliseconds(20);

}  // namespace

ModelPool::ModelPool(std::vector<ModelSource> models, int64_t most, Log log)
    : most_(most > 0 ? static_cast<size_t>(most) : models.size()), log_(std::move(log)) {
  check(!models.empty(), "service: expected at least one model");
  check(most >= 0, "service: expected models_max of 0 (all) or more, got ", most);
  const auto add = [&](const std::string& name, const Place& place) {
    check(!name.empty(), "service: a model's name must not be empty");
    check(find(name) == nullptr, "service: two models are called ", name);
    names_.emplace_back(name, place);
  };
  for (size_t i = 0; i < models.size(); ++i) {
    const ModelSource& source = models[i];
    check(source.load != nullptr, "service: the model ", source.name, " cannot be loaded");
    check(source.slots >= 1, "service: expected at least one slot, got ", source.slots);
    add(source.name, {.slot = i});
    for (const std::string& alias : source.aliases) add(alias, {.slot = i, .is_alias = true});
    for (size_t j = 0; j < source.adapters.size(); ++j)
      add(source.adapters[j].name, {.slot = i, .model = j + 1});
  }
  for (ModelSource& source : models) slots_.push_back({.source = std::move(source)});
}

const ModelPool::Place* ModelPool::find(const std::string& name) const {
  for (const auto& [known, place] : names_)
    if (known == name) return &place;
  return nullptr;
}

std::vector<ModelEntry> ModelPool::entries() const {
  const std::lock_guard lock(mutex_);
  std::vector<ModelEntry> entries;
  for (const auto& [name, place] : names_) {
    const Slot& slot = slots_[place.slot];
    const bool is_loaded = !slot.models.empty();
    const double scale = place.model > 0 ? slot.source.adapters[place.model - 1].scale : 1;
    entries.push_back({.name = name,
                       .is_loaded = is_loaded,
                       .is_alias = place.is_alias,
                       .created = is_loaded ? slot.models.front()->created : 0,
                       .root = place.is_alias || place.model > 0 ? slot.source.name : std::string(),
                       .context = is_loaded ? slot.models.front()->context : 0,
                       .adapter_scale = scale});
  }
  return entries;
}

std::vector<ServedModelPtr> ModelPool::loaded() const {
  const std::lock_guard lock(mutex_);
  std::vector<ServedModelPtr> models;
  for (const Slot& slot : slots_)
    if (!slot.models.empty()) models.push_back(slot.models.front());
  return models;
}

ServedModelPtr ModelPool::loaded(const std::string& name) const {
  const Place* place = find(name);
  if (!place) return nullptr;
  const std::lock_guard lock(mutex_);
  const Slot& slot = slots_[place->slot];
  return slot.models.empty() ? nullptr : slot.models[place->model];
}

ServedModelPtr ModelPool::get(const std::string& name) {
  const Place* place = name.empty() ? &names_.front().second : find(name);
  if (!place) {
    std::string all;
    for (const auto& [known, at] : names_) all += concat(all.empty() ? "" : ", ", known);
    throw ApiError(404,
                   concat("the model '", name.substr(0, 128), "' does not exist; there are: ", all),
                   "model", "model_not_found");
  }
  std::unique_lock lock(mutex_);
  Slot& slot = slots_[place->slot];
  slot.used = ++clock_;
  if (slot.models.empty()) load_or_wait(lock, slot);
  return slot.models[place->model];
}

// Other models' requests go on meanwhile.
void ModelPool::load_or_wait(std::unique_lock<std::mutex>& lock, Slot& slot) {
  const WorkerPool::Substitute substitute;
  while (slot.models.empty()) {
    if (slot.is_loading)
      changed_.wait(lock);
    else
      load(lock, slot);
  }
}

// Unloads idle models until there is room for one more.
void ModelPool::make_room(std::unique_lock<std::mutex>& lock) {
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (taken_ >= most_) {
    Slot* oldest = nullptr;
    for (Slot& slot : slots_) {
      // Pointers are given out under the lock alone: one that is here only is nobody's.
      const bool is_idle = !slot.models.empty() &&
                           std::all_of(slot.models.begin(), slot.models.end(),
                                       [](const auto& model) { return model.use_count() == 1; });
      if (is_idle && (!oldest || slot.used < oldest->used)) oldest = &slot;
    }
    if (oldest) {
      std::vector<ServedModelPtr> models = std::move(oldest->models);
      oldest->models.clear();
      --count_;
      oldest->is_loading = true;  // it cannot come back before it is gone
      const std::string name = oldest->source.name;
      lock.unlock();
      models.clear();
      if (log_) log_(concat("unloaded ", name));
      lock.lock();
      oldest->is_loading = false;
      --taken_;
      changed_.notify_all();
    } else if (std::chrono::steady_clock::now() >= until) {
      ApiError error(503, "all models that fit are in use; try again later", "model",
                     "model_overloaded");
      error.headers.emplace_back("retry-after", "5");
      throw error;
    } else {
      changed_.wait_for(lock, kLook);
    }
  }
}

void ModelPool::load(std::unique_lock<std::mutex>& lock, Slot& slot) {
  slot.is_loading = true;
  const auto done = [&] {
    slot.is_loading = false;
    changed_.notify_all();
  };
  try {
    make_room(lock);
  } catch (...) {
    done();
    throw;
  }
  ++taken_;
  lock.unlock();
  std::vector<ServedModelPtr> models;
  std::string failure;
  try {
    models = load_all(slot.source);
  } catch (const std::exception& error) {
    failure = error.what();
  }
  lock.lock();
  slot.models = std::move(models);
  if (slot.models.empty())
    --taken_;
  else
    ++count_;
  done();
  if (!failure.empty()) {
    // The reason may name files: it is for the log alone.
    if (log_) log_(concat("cannot load ", slot.source.name, ": ", failure));
    throw ApiError(500, concat("the model '", slot.source.name, "' could not be loaded"), "model",
                   "model_not_loaded");
  }
  if (log_) log_(concat("loaded ", slot.source.name));
}

std::vector<ServedModelPtr> ModelPool::load_all(const ModelSource& source) const {
  ServedModel model;
  model.name = source.name;
  model.path = source.path;
  model.slots = source.slots;
  model.backend = source.load();
  check(model.backend != nullptr, "service: loading made no backend");
  model.embedder = std::make_shared<Embedder>(
      model.backend, source.pooling ? source.pooling() : llm::Pooling::mean);
  model.info = model.backend->model_info();
  model.context = model.backend->context();  // makes the engine, which takes its memory now
  model.created = std::time(nullptr);
  std::vector<ServedModelPtr> models = {std::make_shared<const ServedModel>(model)};
  for (const AdapterSource& adapter : source.adapters) {
    model.name = adapter.name;
    model.adapter = model.backend->load_adapter(adapter.path);
    model.adapter_scale = adapter.scale;
    models.push_back(std::make_shared<const ServedModel>(model));
  }
  return models;
}

}  // namespace tensora::serve
