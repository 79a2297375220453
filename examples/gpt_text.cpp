// A small GPT learns to write: a tokenizer made from the text, blocks of tokens as examples, the
// model's own loss, and a text that it writes before and after the training.
//
//   example-gpt_text [--text FILE] [--device cuda] [--steps N] [--brief]
//
// Without FILE it learns from stories that the library makes up.

#include <algorithm>
#include <iostream>

#include "examples/arguments.h"
#include "tensora/data.h"
#include "tensora/models.h"
#include "tensora/nn.h"
#include "tensora/optim.h"
#include "tensora/tensora.h"
#include "tensora/train.h"

using namespace tensora;

// What the model continues the prompt with.
std::string write(models::GPT2& model, const llm::BpeTokenizer& tokenizer,
                  const std::string& prompt, Device device) {
  const Tensor tokens = tensor(tokenizer.encode(prompt), {.dtype = kInt64}).unsqueeze(0);
  const int64_t room = model.config().n_positions - tokens.size(1);
  const Tensor text = model.generate(
      tokens.to(device),
      {.max_new_tokens = std::min<int64_t>(room, 80), .temperature = 0.7, .seed = 1});
  return tokenizer.decode(to_vector<int32_t>(text[0].to(kInt32)));
}

// The mean loss per token on text that was not trained on.
double validate(models::GPT2& model, data::DataLoader& loader) {
  model.eval();
  const no_grad scope;
  double sum = 0;
  for (auto& batch : loader) sum += model(batch[0], batch[1]).item<double>();
  model.train();
  return sum / double(loader.size());
}

int main(int argc, char** argv) try {
  const Arguments arguments(argc, argv);
  const bool brief = arguments.has("--brief");
  const Device device(arguments.value("--device", "cpu"));
  const int64_t steps = std::stoll(arguments.value("--steps", brief ? "150" : "2000"));
  const int64_t context = brief ? 64 : 128;
  const std::string file = arguments.value("--text", "");
  const std::string text =
      file.empty() ? train::story_corpus(1, brief ? 300'000 : 4'000'000) : data::read_text(file);
  manual_seed(0);

  // 1. From text to numbers. The tokenizer gives frequent pieces of words a number of their own.
  const auto tokenizer = llm::BpeTokenizer::train(text, {.vocab_size = brief ? 512 : 1024});
  const std::vector<int32_t> encoded = tokenizer.encode(text);
  const data::Tokens tokens(std::vector<uint16_t>(encoded.begin(), encoded.end()));
  std::cout << text.size() << " bytes are " << tokens.size() << " tokens of "
            << tokenizer.vocab_size() << "\n";

  // 2. Examples are blocks of tokens; the target of each token is the next one. The last tenth of
  //    the text is kept for validation.
  const int64_t split = tokens.size() * 9 / 10;
  const data::TokenDatasetOptions blocks = {.block_size = context};
  data::DataLoader training(
      data::TokenDataset(tokens.slice(0, split), blocks),
      {.batch_size = 16, .shuffle = true, .drop_last = true, .device = device});
  data::DataLoader validation(data::TokenDataset(tokens.slice(split, tokens.size()), blocks),
                              {.batch_size = 32, .device = device});

  // 3. The model. Dropout keeps a long run from learning the text by heart.
  const double dropout = brief ? 0 : 0.1;
  models::GPT2 model({.vocab_size = tokenizer.vocab_size(),
                      .n_positions = context,
                      .n_embd = brief ? 64 : 192,
                      .n_layer = brief ? 2 : 4,
                      .n_head = 4,
                      .resid_pdrop = dropout,
                      .embd_pdrop = dropout,
                      .attn_pdrop = dropout});
  model.to(device);
  std::cout << model.parameter_count() << " parameters\n";
  const std::string prompt = file.empty() ? "Once upon a time" : text.substr(0, 20);
  std::cout << "before: " << write(model, tokenizer, prompt, device) << "\n\n";

  // 4. The training. Large gradients are cut down, as they would throw the weights far off.
  const double peak = brief ? 5e-3 : 1e-3;
  optim::AdamW optimizer(model.parameters(), {.lr = peak, .betas = {0.9, 0.95}});
  optim::OneCycleLR schedule(optimizer, {.max_lr = peak, .total_steps = steps, .pct_start = 0.1});
  const double before = validate(model, validation);
  for (int64_t step = 1; step <= steps; ++step) {
    auto batch = training.next();
    if (!batch) batch = training.next();  // the epoch has ended, the next one begins
    const Tensor loss = model((*batch)[0], (*batch)[1]);
    optimizer.zero_grad();
    loss.backward();
    nn::utils::clip_grad_norm_(model.parameters(), 1.0);
    optimizer.step();
    schedule.step();
    if (step % std::max<int64_t>(1, steps / 5) == 0)
      std::cout << "step " << step << "  loss " << loss.item<double>() << std::endl;
  }

  const double after = validate(model, validation);
  std::cout << "\nafter: " << write(model, tokenizer, prompt, device)
            << "\n\nloss on new text: " << before << " before, " << after << " after\n";
  return after < (brief ? 0.6 : 0.5) * before ? 0 : 1;
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
