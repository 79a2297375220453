// Training steps of whole networks, for bench/train.py: the weights come from a file that PyTorch
// reads too, the data from formulas, and the losses of the first steps go out with the time.
#include <cstring>
#include <functional>
#include <memory>
#include <string>

#include "bench/timing.h"
#include "tensora/core/backend.h"
#include "tensora/dispatch/autocast.h"
#include "tensora/io/safetensors.h"
#include "tensora/jit/compile.h"
#include "tensora/models.h"
#include "tensora/nn.h"
#include "tensora/optim.h"
#include "tensora/tensora.h"

namespace bench {
namespace {

using namespace tensora;

Tensor fractions(int64_t count, double step) {
  const Tensor multiples = arange(count, {.dtype = kFloat64}) * step;
  return multiples - floor(multiples);
}
Tensor numbers(const Shape& sizes) {
  return ((fractions(sizes.numel(), 0.6180339887498949) - 0.5) * 3.4).to(kFloat32).reshape(sizes);
}
Tensor tokens(const Shape& sizes, int64_t below) {
  return floor(fractions(sizes.numel(), 0.7548776662466927) * static_cast<double>(below))
      .to(kInt64)
      .reshape(sizes);
}

/// A model, its loss on one batch, and its optimizer.
struct Training {
  std::shared_ptr<nn::Module> model;
  std::function<Tensor()> loss;
  std::unique_ptr<optim::Optimizer> optimizer;
  bool cast = false;  // bfloat16 autocast
};

struct Case {
  const char* name;
  std::function<Training(Device, const StateDict&)> make;
};

template <class M>
std::shared_ptr<M> placed(M model, Device device, const StateDict& weights) {
  const auto result = std::make_shared<M>(std::move(model));
  // A model that has shapes only takes the tensors over.
  result->load_state_dict(weights, {.assign = result->parameters()[0].is_meta()});
  result->to(device);
  return result;
}

std::unique_ptr<optim::Optimizer> adam(const nn::Module& model) {
  return std::make_unique<optim::Adam>(model.parameters());
}
// The moments of bfloat16 parameters are bfloat16, as PyTorch's are.
std::unique_ptr<optim::Optimizer> adamw(const nn::Module& model, double lr) {
  return std::make_unique<optim::AdamW>(model.parameters(),
                                        optim::AdamWOptions{.lr = lr, .narrow_states = true});
}

/// Classes of images or vectors.
template <class M>
Training classifier(M made, Device device, const StateDict& weights, const Shape& input,
                    int64_t classes) {
  const auto model = placed(std::move(made), device, weights);
  const Tensor x = numbers(input).to(device), y = tokens({input[0]}, classes).to(device);
  return {model, [=] { return cross_entropy((*model)(x), y); }, adam(*model)};
}

Training resnet50(Device device, const StateDict& weights) {
  const auto model = placed(models::resnet50(), device, weights);
  model->to(MemoryFormat::channels_last);
  const Tensor x = numbers({256, 3, 224, 224}).to(device).contiguous(MemoryFormat::channels_last);
  const Tensor y = tokens({256}, 1000).to(device);
  auto optimizer = std::make_unique<optim::SGD>(model->parameters(),
                                                optim::SGDOptions{.lr = 0.01, .momentum = 0.9});
  return {model, [=] { return cross_entropy((*model)(x), y); }, std::move(optimizer), true};
}

template <class M>
Training language(M made, Device device, const StateDict& weights, const Shape& sizes,
                  int64_t vocabulary, double lr, bool cast) {
  const auto model = placed(std::move(made), device, weights);
  // One token more than there are positions: what follows each is its target.
  const Tensor text = tokens({sizes[0], sizes[1] + 1}, vocabulary).to(device);
  const Tensor x = text.narrow(1, 0, sizes[1]).contiguous();
  const Tensor y = text.narrow(1, 1, sizes[1]).contiguous();
  return {model, [=] { return (*model)(x, y); }, adamw(*model, lr), cast};
}

models::GPT2Config gpt(models::GPT2Config config) {
  config.resid_pdrop = config.embd_pdrop = config.attn_pdrop = 0;
  return config;
}

Training llama(Device device, const StateDict& weights, bool checkpointed) {
  models::LLaMAConfig config = models::LLaMAConfig::preset("llama-3.2-1b");
  config.rope_scaling = {};
  std::optional<models::LLaMA> model;
  {
    const nn::FactoryScope shapes_only({.dtype = kBFloat16, .device = Device(DeviceType::meta)});
    model.emplace(config);
  }
  model->checkpoint_activations = checkpointed;
  return language(*model, device, weights, {4, 2048}, config.vocab_size, 1e-4, false);
}

/// The LSTM language model of the CPU rows.
struct LstmModel : nn::Layer<LstmModel> {
  nn::Embedding embedding = register_module("embedding", nn::Embedding(1000, 128));
  nn::LSTM rnn = register_module("rnn", nn::LSTM(128, 256, {.batch_first = true}));
  nn::Linear head = register_module("head", nn::Linear(256, 1000));
  Tensor forward(const Tensor& x) const { return head(std::get<0>(rnn(embedding(x)))); }
};

Training lstm_model(Device device, const StateDict& weights) {
  const auto model = placed(LstmModel(), device, weights);
  const Tensor text = tokens({16, 65}, 1000).to(device);
  const Tensor x = text.narrow(1, 0, 64).contiguous(), y = text.narrow(1, 1, 64).flatten();
  return {model, [=] { return cross_entropy((*model)(x).flatten(0, 1), y); }, adam(*model)};
}

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"mlp_b64",
       [](Device d, const StateDict& w) {
         return classifier(models::MLP({784, 512, 512, 10}), d, w, {64, 784}, 10);
       }},
      {"mlp_b256",
       [](Device d, const StateDict& w) {
         return classifier(models::MLP({784, 512, 512, 10}), d, w, {256, 784}, 10);
       }},
      {"lenet_b64",
       [](Device d, const StateDict& w) {
         return classifier(models::LeNet(), d, w, {64, 1, 28, 28}, 10);
       }},
      {"resnet18_b16",
       [](Device d, const StateDict& w) {
         return classifier(models::resnet18({.num_classes = 10, .small_images = true}), d, w,
                           {16, 3, 32, 32}, 10);
       }},
      {"gpt_mini_b8",
       [](Device d, const StateDict& w) {
         models::GPT2Config config = gpt(models::GPT2Config::preset("mini"));
         config.activation_function = "gelu";
         return language(models::GPT2(config), d, w, {8, 256}, 65, 1e-3, false);
       }},
      {"lstm_b16_t64", lstm_model},
      {"gpt2_b32",
       [](Device d, const StateDict& w) {
         models::GPT2Config config = gpt({});
         config.vocab_size = 50304;
         return language(models::GPT2(config), d, w, {32, 1024}, 50257, 3e-4, true);
       }},
      {"resnet50_b256", resnet50},
      {"llama1b_b4", [](Device d, const StateDict& w) { return llama(d, w, false); }},
      {"llama1b_b4_checkpointed", [](Device d, const StateDict& w) { return llama(d, w, true); }},
  };
  return all;
}

Tensor step(Training& training, Device device) {
  Tensor loss;
  {
    const autocast scope(AutocastOptions{.device = device, .enabled = training.cast});
    loss = training.loss();
  }
  loss.backward();
  training.optimizer->step();
  training.optimizer->zero_grad();
  return loss.detach();
}

double peak_bytes(Device device) {
  if (!device.is_cpu()) return static_cast<double>(memory_stats(device).peak_allocated);
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024;
}

struct RunOptions {
  int curve = 10, timed = 10;
  bool exact = false;     // without autocast
  bool compiled = false;  // steps are a compiled function
};

void run(const Case& chosen, Device device, const std::string& weights, RunOptions options) {
  Training training = chosen.make(device, io::load_safetensors(weights));
  if (options.exact) training.cast = false;
  training.model->train();
  const auto compiled = compile([&] { return step(training, device); });
  const auto next = [&] { return options.compiled ? compiled() : step(training, device); };
  std::vector<Tensor> losses;
  std::vector<double> times;
  const double start = now();
  double first = 0;
  for (int i = 0; i < options.curve; ++i) {
    losses.push_back(next());
    if (i > 0) continue;
    synchronize(device);
    first = now() - start;
  }
  for (int i = 0; i < options.timed; ++i) {
    synchronize(device);
    const double begin = now();
    next();
    synchronize(device);
    times.push_back((now() - begin) * 1e3);
  }
  std::sort(times.begin(), times.end());
  std::printf(
      "{\"name\": \"%s\", \"ms\": %.6g, \"best_ms\": %.6g, \"first_ms\": %.6g, \"peak_bytes\": "
      "%.0f, "
      "\"losses\": [",
      chosen.name, times[times.size() / 2], times[0], first * 1e3, peak_bytes(device));
  for (size_t i = 0; i < losses.size(); ++i)
    std::printf("%s%.7g", i ? ", " : "", losses[i].item<double>());
  std::printf("]}\n");
}

}  // namespace
}  // namespace bench

int main(int argc, char** argv) {
  std::string name, device = "cpu", weights;
  bench::RunOptions options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i], value = argv[i + 1];
    if (flag == "--case") name = value;
    if (flag == "--device") device = value;
    if (flag == "--weights") weights = value;
    if (flag == "--curve") options.curve = std::stoi(value);
    if (flag == "--timed") options.timed = std::max(1, std::stoi(value));
    if (flag == "--exact") options.exact = value == "1";
    if (flag == "--compiled") options.compiled = value == "1";
  }
  try {
    for (const bench::Case& each : bench::cases())
      if (each.name == name) {
        bench::run(each, tensora::Device(device), weights, options);
        return 0;
      }
    std::fprintf(stderr, "tensora-bench-train is run by bench/train.py; --case names one of:");
    for (const bench::Case& each : bench::cases()) std::fprintf(stderr, " %s", each.name);
    std::fprintf(stderr, "\n");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", name.c_str(), error.what());
  }
  return 1;
}
