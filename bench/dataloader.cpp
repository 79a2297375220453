// How fast batches come: tokens from a memory-mapped file, and decoded JPEG images by the number of
// workers; each beside the same work in a plain loop. And whether they come fast enough: the speed
// of training a GPT on the token file, as a share of its speed on a batch that is already there.
// With --device cuda batches are put there.
//
//   tensora-bench-dataloader [--device NAME] [--seconds S] [--filter TEXT]
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <string>

#include "bench/timing.h"
#include "tensora/data.h"
#include "tensora/dispatch/autocast.h"
#include "tensora/models/gpt2.h"
#include "tensora/optim.h"
#include "tensora/tensora.h"

using namespace tensora;
using namespace tensora::data;

namespace {

struct Settings {
  Device device;
  double seconds = 1;
  const char* filter = "";
} settings;

bool all_correct = true;

void report(const std::string& name, double value, const char* unit, bool correct) {
  all_correct &= correct;
  bench::report(name.c_str(), value, unit, correct);
}

bool skip(const std::string& name) { return name.find(settings.filter) == std::string::npos; }

class Folder {
 public:
  Folder() {
    std::string name = std::filesystem::temp_directory_path() / "tensora-bench-XXXXXX";
    check(mkdtemp(name.data()) != nullptr, "bench: no temporary folder");
    path_ = name;
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// Batches per second of a function that gives one. What was prepared ahead, `stock` batches, is
/// taken first, and the time is long enough for it not to count.
template <class Next>
double rate(const Next& next, int64_t stock = 1) {
  for (int64_t i = 0; i < stock; ++i) next();
  int64_t count = 0;
  const double start = bench::now();
  for (; bench::now() - start < settings.seconds || count < 4 * stock; ++count) next();
  if (!settings.device.is_cpu()) synchronize(settings.device);
  return static_cast<double>(count) / (bench::now() - start);
}

Batch next_of(DataLoader& loader) {
  std::optional<Batch> batch = loader.next();
  return batch ? std::move(*batch) : *loader.next();
}

void tokens(const Folder& folder) {
  constexpr int64_t count = 16 << 20, block = 1024, batch_size = 32;
  std::vector<int64_t> numbers(count);
  for (int64_t i = 0; i < count; ++i) numbers[static_cast<size_t>(i)] = i % 50257;
  write_tokens(folder / "tokens.bin", numbers);
  const TokenDataset data(Tokens::open(folder / "tokens.bin"), {.block_size = block});
  const auto is_shifted = [](const Batch& batch) {
    return ((batch[0] + 1).remainder(50257) == batch[1]).all().item<bool>();
  };
  constexpr double per_batch = block * batch_size;
  if (const char* name = "tokens, from a tensor in memory"; !skip(name)) {
    const Tensor ready = randint(50257, {batch_size, block}, {.device = settings.device});
    report(name, rate([&] {
                   return Batch{ready.clone(), ready.clone()};
                 }) * per_batch,
           "token/s", true);
  }
  if (const char* name = "tokens, plain loop"; !skip(name)) {
    int64_t at = 0;
    const auto next = [&] {
      std::vector<Example> examples;
      for (int64_t i = 0; i < batch_size; ++i) examples.push_back(data.get(at++ % data.size()));
      Batch batch = default_collate(examples);
      for (Tensor& tensor : batch) tensor = tensor.to(settings.device);
      return batch;
    };
    report(name, rate(next) * per_batch, "token/s", is_shifted(next()));
  }
  for (const int workers : {0, 1, 2}) {
    const std::string name = concat("tokens, loader with ", workers, " workers");
    if (skip(name)) continue;
    DataLoader loader(data, {.batch_size = batch_size,
                             .shuffle = true,
                             .num_workers = workers,
                             .drop_last = true,
                             .device = settings.device});
    const auto next = [&] { return next_of(loader); };
    report(name, rate(next, 1 + 2 * workers) * per_batch, "token/s", is_shifted(next()));
  }
}

// On a GPU the 124 M of GPT-2 under autocast, elsewhere a small one.
void training(const Folder& folder) {
  const bool gpu = !settings.device.is_cpu();
  const int64_t vocabulary = gpu ? 50257 : 256, block = gpu ? 1024 : 128;
  const int64_t batch_size = gpu ? 32 : 4;
  const auto name_of = [](int workers) {
    return concat("training from a token file, loader with ", workers, " workers");
  };
  if (skip(name_of(1)) && skip(name_of(2))) return;
  std::vector<int64_t> numbers(1 << 22);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<int64_t>(i) % vocabulary;
  write_tokens(folder / "text.bin", numbers);
  const TokenDataset data(Tokens::open(folder / "text.bin"), {.block_size = block});
  models::GPT2Config config = models::GPT2Config::preset(gpu ? "gpt2" : "tiny");
  config.vocab_size = gpu ? 50304 : vocabulary;
  config.n_positions = block;
  config.resid_pdrop = config.embd_pdrop = config.attn_pdrop = 0;
  models::GPT2 model(config);
  model.to(settings.device);
  optim::AdamW optimizer(model.parameters(), optim::AdamWOptions{.lr = 1e-4});
  Tensor loss;
  const auto step = [&](const Batch& batch) {
    {
      const autocast scope(AutocastOptions{.device = settings.device, .enabled = gpu});
      loss = model(batch[0], batch[1]);
    }
    loss.backward();
    optimizer.step();
    optimizer.zero_grad();
  };
  for (const int workers : {1, 2}) {
    if (skip(name_of(workers))) continue;
    DataLoader loader(data, {.batch_size = batch_size,
                             .shuffle = true,
                             .num_workers = workers,
                             .drop_last = true,
                             .device = settings.device});
    const Batch ready = next_of(loader);
    // In turns: what disturbs the machine disturbs both.
    double there = 0, loaded = 0;
    for (int round = 0; round < 3; ++round) {
      there = std::max(there, rate([&] { step(ready); }));
      loaded = std::max(loaded, rate([&] { step(next_of(loader)); }, 1 + 2 * workers));
    }
    const auto per_batch = static_cast<double>(block * batch_size);
    const bool finite = std::isfinite(loss.item<double>());
    report(concat("training on a batch in memory, beside ", workers, " workers"), there * per_batch,
           "token/s", finite);
    report(name_of(workers), loaded * per_batch, "token/s", finite);
    report(concat("share of that speed, ", workers, " workers (goal 95)"), loaded / there * 100,
           "%", finite);
  }
}

// Photographs have about 40 KB at this size; so have these waves with some noise.
void write_photographs(const Folder& folder, int64_t count) {
  manual_seed(0);
  const Tensor y = linspace(0, 30, 375).reshape({375, 1}), x = linspace(0, 40, 500);
  for (int64_t i = 0; i < count; ++i) {
    const Tensor phase = rand({3, 1, 1}) * 6;
    const Tensor image = sin(y + phase) * cos(x + phase) * 0.4 + 0.5 + randn({3, 375, 500}) * 0.03;
    const std::string path = folder / concat("images/", i % 2, "/", i, ".jpg");
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    write_jpeg(path, image);
  }
}

void images(const Folder& folder) {
  constexpr int64_t count = 64, batch_size = 16;
  write_photographs(folder, count);
  const Compose transform({RandomResizedCrop(224), RandomHorizontalFlip(), ConvertImageDtype(),
                           Normalize({0.485, 0.456, 0.406}, {0.229, 0.224, 0.225})});
  const auto data =
      std::make_shared<ImageFolder>(folder / "images", ImageFolderOptions{.transform = transform});
  const auto is_image = [](const Batch& batch) {
    return batch[0].sizes() == Shape{batch_size, 3, 224, 224} && batch[1].size(0) == batch_size;
  };
  if (const char* name = "JPEG, decoding alone"; !skip(name)) {
    int64_t at = 0;
    const auto next = [&] {
      return read_image(data->samples()[static_cast<size_t>(at++ % count)].first);
    };
    report(name, rate(next), "image/s", next().sizes() == Shape{3, 375, 500});
  }
  if (const char* name = "JPEG, plain loop"; !skip(name)) {
    int64_t at = 0;
    const auto next = [&] {
      std::vector<Example> examples;
      for (int64_t i = 0; i < batch_size; ++i) examples.push_back(data->get(at++ % count));
      return default_collate(examples);
    };
    report(name, rate(next) * batch_size, "image/s", is_image(next()));
  }
  for (const int workers : {0, 1, 2, 4, 8}) {
    const std::string name = concat("JPEG, loader with ", workers, " workers");
    if (skip(name)) continue;
    DataLoader loader(data, {.batch_size = batch_size,
                             .shuffle = true,
                             .num_workers = workers,
                             .prefetch_factor = 1,
                             .device = settings.device});
    const auto next = [&] { return next_of(loader); };
    report(name, rate(next, 1 + workers) * batch_size, "image/s", is_image(next()));
  }
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--device") == 0) settings.device = Device(argv[i + 1]);
    if (std::strcmp(argv[i], "--seconds") == 0) settings.seconds = std::atof(argv[i + 1]);
    if (std::strcmp(argv[i], "--filter") == 0) settings.filter = argv[i + 1];
  }
  try {
    const Folder folder;
    tokens(folder);
    training(folder);
    images(folder);
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return all_correct ? 0 : 1;
}
