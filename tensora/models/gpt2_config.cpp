#include <nlohmann/json.hpp>

#include "tensora/base/check.h"
#include "tensora/io/json_fields.h"
#include "tensora/models/gpt2.h"

namespace tensora::models {

namespace {

using Json = nlohmann::ordered_json;

template <class T>
void read(const Json& object, const char* name, T& value) {
  io::read_field(object, name, value, "GPT2Config");
}

}  // namespace

GPT2Config GPT2Config::from_json(const std::string& text) {
  const Json object = Json::parse(text, nullptr, false);
  check(object.is_object(), "GPT2Config: the text is not a JSON object");
  std::string type = "gpt2";
  read(object, "model_type", type);
  check(type == "gpt2", "GPT2Config: the model type '", type, "' is not gpt2");
  GPT2Config config;
  read(object, "vocab_size", config.vocab_size);
  read(object, "n_positions", config.n_positions);
  read(object, "n_embd", config.n_embd);
  read(object, "n_layer", config.n_layer);
  read(object, "n_head", config.n_head);
  read(object, "n_inner", config.n_inner);
  read(object, "resid_pdrop", config.resid_pdrop);
  read(object, "embd_pdrop", config.embd_pdrop);
  read(object, "attn_pdrop", config.attn_pdrop);
  read(object, "layer_norm_epsilon", config.layer_norm_epsilon);
  read(object, "initializer_range", config.initializer_range);
  read(object, "activation_function", config.activation_function);
  config.check_valid();
  return config;
}

std::string GPT2Config::to_json() const {
  Json object = {{"architectures", Json::array({"GPT2LMHeadModel"})},
                 {"model_type", "gpt2"},
                 {"vocab_size", vocab_size},
                 {"n_positions", n_positions},
                 {"n_ctx", n_positions},
                 {"n_embd", n_embd},
                 {"n_layer", n_layer},
                 {"n_head", n_head},
                 {"n_inner", nullptr},
                 {"activation_function", activation_function},
                 {"resid_pdrop", resid_pdrop},
                 {"embd_pdrop", embd_pdrop},
                 {"attn_pdrop", attn_pdrop},
                 {"layer_norm_epsilon", layer_norm_epsilon},
                 {"initializer_range", initializer_range},
                 {"tie_word_embeddings", true}};
  if (n_inner > 0) object["n_inner"] = n_inner;
  return object.dump(2) + "\n";
}

GPT2Config GPT2Config::preset(const std::string& name) {
  if (name == "tiny")
    return {.vocab_size = 4096,
            .n_positions = 256,
            .n_embd = 128,
            .n_layer = 4,
            .n_head = 4,
            .resid_pdrop = 0,
            .embd_pdrop = 0,
            .attn_pdrop = 0};
  if (name == "mini")
    return {.vocab_size = 65, .n_positions = 256, .n_embd = 384, .n_layer = 6, .n_head = 6};
  if (name == "gpt2") return {};
  if (name == "gpt2-medium") return {.n_embd = 1024, .n_layer = 24, .n_head = 16};
  if (name == "gpt2-large") return {.n_embd = 1280, .n_layer = 36, .n_head = 20};
  check(name == "gpt2-xl", "GPT2Config: there is no preset '", name,
        "'; there are tiny, mini, gpt2, gpt2-medium, gpt2-large and gpt2-xl");
  return {.n_embd = 1600, .n_layer = 48, .n_head = 25};
}

void GPT2Config::check_valid() const {
  check(vocab_size > 0 && n_positions > 0 && n_embd > 0 && n_layer >= 0 && n_head > 0,
        "GPT2Config: sizes must be positive, got vocab_size=", vocab_size,
        ", n_positions=", n_positions, ", n_embd=", n_embd, ", n_layer=", n_layer,
        ", n_head=", n_head);
  check(n_embd % n_head == 0, "GPT2Config: n_head must divide n_embd, got ", n_head, " and ",
        n_embd);
  check(activation_function == "gelu_new" || activation_function == "gelu" ||
            activation_function == "relu",
        "GPT2Config: expected the activation gelu_new, gelu or relu, got '", activation_function,
        "'");
}

}  // namespace tensora::models
