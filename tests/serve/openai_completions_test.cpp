#include <cstring>

#include "openai_toy.h"
#include "tensora/serve/json_text.h"
#include "tensora/serve/llama_routes.h"

namespace tensora::serve {
namespace {

using namespace testing;

constexpr const char* kPath = "/v1/completions";

class CompletionTest : public OpenAiTest {
 protected:
  std::vector<std::string> texts(const Json& body) {
    const Json whole = answer(kPath, body);
    std::vector<std::string> texts;
    for (const Json& choice : whole["choices"]) {
      EXPECT_EQ(choice["index"], texts.size());
      texts.push_back(choice["text"]);
    }
    return texts;
  }
  std::string alone(const std::string& prompt, int64_t tokens) {
    return backend->engine
        ->generate({.prompt = prompt, .sampling = {.temperature = 0}, .max_tokens = tokens})
        .text;
  }
};

// Put together from a stream, per choice.
std::vector<Json> logprobs_of(const std::vector<std::string>& events, size_t choices) {
  std::vector<Json> logprobs(choices, {{"tokens", Json::array()},
                                       {"token_logprobs", Json::array()},
                                       {"top_logprobs", Json::array()},
                                       {"text_offset", Json::array()}});
  for (size_t i = 0; i + 1 < events.size(); ++i) {
    const Json choice = Json::parse(events[i])["choices"][0];
    if (choice["logprobs"].is_null()) continue;
    for (auto& [name, list] : logprobs[choice["index"]].items())
      for (const Json& one : choice["logprobs"][name]) list.push_back(one);
  }
  return logprobs;
}

TEST_F(CompletionTest, TakesPromptsInEveryShape) {
  start();
  const std::string a = alone("AB", 12), b = alone("CDE", 12);
  const auto tokens = [&](const std::string& text) {
    return Json(backend->tokenizer()->encode(text));
  };
  using Texts = std::vector<std::string>;
  EXPECT_EQ(texts(completion("AB", 12)), Texts{a});
  EXPECT_EQ(texts(completion({"AB", "CDE"}, 12)), (Texts{a, b}));
  EXPECT_EQ(texts(completion(tokens("AB"), 12)), Texts{a});
  EXPECT_EQ(texts(completion(Json::array({tokens("AB"), tokens("CDE")}), 12)), (Texts{a, b}));
  Json echo = completion({"AB", "CDE"}, 12);
  echo["echo"] = true;
  EXPECT_EQ(texts(echo), (Texts{"AB" + a, "CDE" + b}));
  // 16 tokens unless asked otherwise.
  Json short_one = completion("AB");
  short_one.erase("max_tokens");
  short_one["ignore_eos"] = true;
  EXPECT_EQ(answer(kPath, short_one)["usage"]["completion_tokens"], 16);
}

TEST_F(CompletionTest, AStreamIsTheWholeInParts) {
  start({.max_sequences = 3});
  Json body = completion({"AB", "CDE", "F"}, 20);
  body["n"] = 2;
  body["temperature"] = 1;
  body["seed"] = -5;
  body["logprobs"] = 2;
  const Json whole = answer(kPath, body);
  body["stream"] = true;
  const auto events = events_of(post(kPath, body)->wait().body);
  std::vector<std::string> texts(6);
  const std::vector<Json> logprobs = logprobs_of(events, 6);
  for (size_t i = 0; i + 1 < events.size(); ++i) {
    const Json chunk = Json::parse(events[i]);
    EXPECT_EQ(chunk["object"], "text_completion");
    const Json& choice = chunk["choices"][0];
    const size_t index = choice["index"];
    texts[index] += choice["text"].get<std::string>();
  }
  EXPECT_EQ(events.back(), "[DONE]");
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(whole["choices"][i]["text"], texts[i]);
    EXPECT_EQ(whole["choices"][i]["logprobs"], logprobs[i]);
  }
  // A prompt counts once, however many answers it gets.
  EXPECT_EQ(whole["usage"]["prompt_tokens"], 2 + 1 + 3 + 1 + 1 + 1);
}

TEST_F(CompletionTest, OldLogprobsSayWhereTokensBegin) {
  start();
  Json body = completion("AB", 10);
  body["logprobs"] = 1;
  const Json choice = answer(kPath, body)["choices"][0];
  const Json& logprobs = choice["logprobs"];
  std::string text;
  for (size_t i = 0; i < logprobs["tokens"].size(); ++i) {
    EXPECT_EQ(logprobs["text_offset"][i], text.size());
    text += logprobs["tokens"][i].get<std::string>();
    EXPECT_EQ(logprobs["tokens"][i], logprobs["top_logprobs"][i].begin().key());
    EXPECT_EQ(logprobs["top_logprobs"][i].begin().value(), logprobs["token_logprobs"][i]);
  }
  EXPECT_EQ(choice["text"], text);
}

TEST_F(CompletionTest, EchoesThePromptWithItsLogprobs) {
  start({.max_sequences = 3});
  Json body = completion({"ABCDE", "F", "ABCDEFGH"}, 6);
  body["echo"] = true;
  body["logprobs"] = 2;
  body["ignore_eos"] = true;
  for (const int64_t most : {6, 0}) {
    body["max_tokens"] = most;
    body["stream"] = false;
    const Json whole = answer(kPath, body);
    for (size_t i = 0; i < 3; ++i) {
      const Json& choice = whole["choices"][i];
      const Json& logprobs = choice["logprobs"];
      const std::string prompt = body["prompt"][i], text = choice["text"];
      // The toy puts a token before the text, which stands for nothing in it.
      ASSERT_EQ(logprobs["tokens"].size(), 1 + prompt.size() + static_cast<size_t>(most));
      EXPECT_TRUE(logprobs["token_logprobs"][0].is_null() && logprobs["top_logprobs"][0].is_null());
      EXPECT_TRUE(text.starts_with(prompt));
      for (size_t t = 1; t < logprobs["tokens"].size(); ++t) {
        EXPECT_EQ(logprobs["tokens"][t], text.substr(t - 1, 1));
        EXPECT_EQ(logprobs["text_offset"][t], t - 1);
        EXPECT_LT(logprobs["token_logprobs"][t], 0);
        EXPECT_EQ(logprobs["top_logprobs"][t].size(), 2u);
      }
      // A text scores the same as the prompt as it did as the answer.
      if (most == 0) continue;
      Json again = completion(text, 0);
      again["echo"] = true;
      again["logprobs"] = 2;
      EXPECT_EQ(answer(kPath, again)["choices"][0]["logprobs"], logprobs);
    }
    body["stream"] = true;
    const auto streamed = logprobs_of(events_of(post(kPath, body)->wait().body), 3);
    for (size_t i = 0; i < 3; ++i) EXPECT_EQ(streamed[i], whole["choices"][i]["logprobs"]);
  }
  body["suffix"] = "x";
  EXPECT_EQ(refused(kPath, body)["param"], "suffix");
}

TEST_F(CompletionTest, MinTokensPutOffTheEnd) {
  start();
  Json body = completion("AB", 200);
  body["min_tokens"] = 190;
  const Json whole = answer(kPath, body);
  EXPECT_GE(whole["usage"]["completion_tokens"], 190);
  body["stream"] = true;
  std::string text;
  const auto events = events_of(post(kPath, body)->wait().body);
  for (size_t i = 0; i + 1 < events.size(); ++i)
    text += Json::parse(events[i])["choices"][0]["text"].get<std::string>();
  EXPECT_EQ(whole["choices"][0]["text"], text);
  body["min_tokens"] = 201;
  EXPECT_EQ(refused(kPath, body)["param"], "min_tokens");
}

TEST_F(CompletionTest, ShowsTheBest) {
  start();
  Json body = completion("AB", 10);
  body["temperature"] = 2;
  body["seed"] = 3;
  body["ignore_eos"] = true;
  body["n"] = 6;
  body["logprobs"] = 0;
  const Json all = answer(kPath, body);
  const auto mean = [](const Json& choice) {
    double sum = 0;
    for (const Json& one : choice["logprobs"]["token_logprobs"]) sum += one.get<double>();
    return sum;
  };
  double best = -1e9;
  for (const Json& choice : all["choices"]) best = std::max(best, mean(choice));
  body["n"] = 1;
  body["best_of"] = 6;
  const Json one = answer(kPath, body);
  ASSERT_EQ(one["choices"].size(), 1u);
  EXPECT_DOUBLE_EQ(mean(one["choices"][0]), best);
  EXPECT_EQ(one["usage"]["completion_tokens"], 60);
}

TEST_F(CompletionTest, NamesWhatIsWrong) {
  start();
  const auto param = [&](const char* name, const Json& value) {
    Json body = completion("AB");
    body[name] = value;
    return refused(kPath, body)["param"];
  };
  EXPECT_EQ(param("prompt", 5), "prompt");
  EXPECT_EQ(param("prompt", Json::array()), "prompt");
  EXPECT_EQ(param("prompt", Json::array({"A", 5})), "prompt[1]");
  EXPECT_EQ(param("prompt", Json::array({1, -1})), "prompt[1]");
  EXPECT_EQ(param("prompt", Json::array({1, 1000000})), "prompt[1]");
  EXPECT_EQ(param("prompt", Json::array({1, 1.5})), "prompt[1]");
  EXPECT_EQ(param("prompt", "lower case z is no token"), "prompt");
  EXPECT_EQ(param("prompt", std::string(300, 'A')), "prompt");
  EXPECT_EQ(param("suffix", "x"), "suffix");
  EXPECT_EQ(param("best_of", 21), "best_of");
  EXPECT_EQ(param("logprobs", 21), "logprobs");
  EXPECT_EQ(param("stream_options", Json::object()), "stream_options");
  Json body = completion("AB");
  body["best_of"] = 1;
  body["n"] = 2;
  EXPECT_EQ(refused(kPath, body)["param"], "best_of");
  EXPECT_EQ(refused(kPath, completion(std::string(300, 'A')))["code"], "context_length_exceeded");
}

TEST_F(CompletionTest, EmbedsTexts) {
  start();
  const char* path = "/v1/embeddings";
  const Json two = answer(path, {{"model", "toy"}, {"input", {"ABC", "D"}}});
  ASSERT_EQ(two["data"].size(), 2u);
  EXPECT_EQ(two["usage"]["prompt_tokens"], 6);
  const std::vector<float> first = two["data"][0]["embedding"];
  double squares = 0;
  for (const float value : first) squares += static_cast<double>(value) * value;
  EXPECT_NEAR(squares, 1, 1e-5);
  // The same as base64, alone and from tokens.
  const Json tokens = backend->tokenizer()->encode("ABC");
  const std::string coded =
      answer(path, {{"input", tokens}, {"encoding_format", "base64"}})["data"][0]["embedding"];
  ASSERT_EQ(coded.size(), (first.size() * 4 + 2) / 3 * 4);
  std::vector<unsigned char> bytes;
  uint32_t bits = 0;
  int count = 0;
  const std::string letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (const char letter : coded) {
    if (letter == '=') break;
    bits = bits << 6 | static_cast<uint32_t>(letters.find(letter));
    if ((count += 6) >= 8) bytes.push_back(static_cast<unsigned char>(bits >> (count -= 8)));
  }
  ASSERT_EQ(bytes.size(), first.size() * 4);
  EXPECT_EQ(std::memcmp(bytes.data(), first.data(), bytes.size()), 0);
  EXPECT_EQ(refused(path, {{"input", ""}, {"dimensions", 0}})["param"], "dimensions");
  EXPECT_EQ(refused(path, {{"model", "toy"}})["param"], "input");
  EXPECT_EQ(refused(path, {{"input", Json::array({"A", nullptr})}})["param"], "input[1]");
  EXPECT_EQ(refused(path, {{"input", std::string(300, 'A')}})["code"], "context_length_exceeded");
}

TEST(JsonText, IsWhatAParserReads) {
  std::string all;
  for (int i = 0; i < 128; ++i) all += static_cast<char>(i);
  all += "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80";
  EXPECT_EQ(Json::parse(json_string(all)), all);
  for (const char* bad :
       {"\xff", "\xc3", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82"})
    EXPECT_TRUE(Json::accept(json_string(std::string("a") + bad + "b"))) << bad;
  EXPECT_EQ(json_string("\xff"), "\"\xef\xbf\xbd\"");
}

// llama.cpp's route: tokens without text, as the one that ends the answer, come with the last
// event.
TEST_F(CompletionTest, LlamaStreamsHaveAllTokens) {
  start();
  add_llama_routes(*router, *service);
  bool has_ended = false;
  for (char letter = 'A'; letter <= 'Z'; ++letter) {
    const std::string prompt(1, letter);
    Json body = {{"prompt", prompt},      {"n_predict", 40}, {"temperature", 0},
                 {"return_tokens", true}, {"n_probs", 1},    {"stop", {"QQ", "Z"}}};
    const Json whole = answer("/completion", body);
    has_ended = has_ended || whole["stop_type"] != "limit";
    body["stream"] = true;
    Json tokens = Json::array(), probabilities = Json::array();
    for (const std::string& event : events_of(post("/completion", body)->wait().body)) {
      const Json data = Json::parse(event);
      for (const Json& one : data["tokens"]) tokens.push_back(one);
      for (const Json& one : data["completion_probabilities"]) probabilities.push_back(one);
    }
    EXPECT_EQ(tokens, whole["tokens"]) << prompt;
    EXPECT_EQ(probabilities, whole["completion_probabilities"]) << prompt;
  }
  EXPECT_TRUE(has_ended);
}

}  // namespace
}  // namespace tensora::serve
