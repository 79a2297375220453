#include "openai_toy.h"

namespace tensora::serve {
namespace {

using namespace testing;

class ChatTest : public OpenAiTest {
 protected:
  std::shared_ptr<RecordedReply> post(const Json& body, const std::string& key = {}) {
    return OpenAiTest::post("/v1/chat/completions", body, key);
  }
  Json whole(const Json& body) {
    const HttpResponse response = post(body)->wait();
    EXPECT_EQ(response.status, 200) << response.body;
    return Json::parse(response.body);
  }
  // The chunks of a stream put together to what the whole answer would be.
  Json streamed(Json body) {
    body["stream"] = true;
    body["stream_options"] = {{"include_usage", true}};
    const HttpResponse response = post(body)->wait();
    EXPECT_EQ(response.status, 200) << response.body;
    EXPECT_EQ(response.content_type, "text/event-stream");
    return join(events_of(response.body));
  }
  static Json join(const std::vector<std::string>& events);
};

Json ChatTest::join(const std::vector<std::string>& events) {
  Json out = {{"choices", Json::array()}};
  EXPECT_EQ(events.back(), "[DONE]");
  std::string id;
  for (size_t i = 0; i + 1 < events.size(); ++i) {
    const Json chunk = Json::parse(events[i]);
    EXPECT_EQ(chunk["object"], "chat.completion.chunk");
    if (i == 0) id = chunk["id"];
    EXPECT_EQ(chunk["id"], id);
    for (const Json& choice : chunk["choices"]) {
      const size_t index = choice["index"];
      while (out["choices"].size() <= index)
        out["choices"].push_back(
            {{"message", {{"role", nullptr}, {"content", ""}}}, {"logprobs", nullptr}});
      Json& to = out["choices"][index];
      const Json& delta = choice["delta"];
      if (delta.contains("role")) {
        EXPECT_TRUE(to["message"]["role"].is_null());
        to["message"]["role"] = delta["role"];
      } else {
        EXPECT_FALSE(to["message"]["role"].is_null());
      }
      if (delta.contains("content"))
        to["message"]["content"] =
            to["message"]["content"].get<std::string>() + delta["content"].get<std::string>();
      if (!choice["logprobs"].is_null()) {
        if (to["logprobs"].is_null()) to["logprobs"] = {{"content", Json::array()}};
        for (const Json& one : choice["logprobs"]["content"])
          to["logprobs"]["content"].push_back(one);
      }
      if (!choice["finish_reason"].is_null()) {
        EXPECT_FALSE(to.contains("finish_reason"));
        EXPECT_TRUE(delta.empty());
        to["finish_reason"] = choice["finish_reason"];
        to["seed"] = choice["seed"];
      }
    }
    const bool is_last = i + 2 == events.size();
    EXPECT_EQ(chunk["choices"].empty(), is_last);
    EXPECT_EQ(chunk.at("usage").is_null(), !is_last);
    if (is_last) out["usage"] = chunk["usage"];
  }
  return out;
}

TEST_F(ChatTest, AnswersAsTheEngineAlone) {
  start();
  const Json answer = whole(chat("ABC"));
  const llm::Completion expected =
      backend->engine->generate({.messages = {{.role = "user", .content = "ABC"}},
                                 .sampling = {.temperature = 0},
                                 .max_tokens = 20});
  const Json& choice = answer["choices"][0];
  EXPECT_EQ(choice["message"]["content"], expected.text);
  EXPECT_EQ(choice["message"]["role"], "assistant");
  EXPECT_TRUE(choice["message"]["refusal"].is_null());
  EXPECT_EQ(choice["finish_reason"], name(expected.reason));
  EXPECT_EQ(answer["object"], "chat.completion");
  EXPECT_EQ(answer["model"], "toy");
  EXPECT_EQ(answer["usage"]["prompt_tokens"], expected.usage.prompt_tokens);
  EXPECT_EQ(answer["usage"]["completion_tokens"], expected.usage.completion_tokens);
  EXPECT_EQ(answer["usage"]["total_tokens"],
            expected.usage.prompt_tokens + expected.usage.completion_tokens);
  EXPECT_TRUE(answer["usage"]["prompt_tokens_details"].contains("cached_tokens"));
}

TEST_F(ChatTest, AStreamIsTheWholeInParts) {
  start({.max_sequences = 4});
  for (const bool logprobs : {false, true})
    for (const int64_t n : {1, 3})
      for (const char* text : {"A", "HELLO", "XYZ"}) {
        Json body = chat(text, 30);
        body["temperature"] = 1.5;
        body["seed"] = 7;
        body["n"] = n;
        body["cache_salt"] = text;
        if (logprobs) {
          body["logprobs"] = true;
          body["top_logprobs"] = 2;
        }
        whole(body);  // fills the prefix cache
        const Json expected = whole(body), parts = streamed(body);
        ASSERT_EQ(parts["choices"].size(), static_cast<size_t>(n));
        EXPECT_EQ(parts["usage"], expected["usage"]);
        for (size_t i = 0; i < parts["choices"].size(); ++i) {
          const Json &a = parts["choices"][i], &b = expected["choices"][i];
          EXPECT_EQ(a["message"]["content"], b["message"]["content"]);
          EXPECT_EQ(a["finish_reason"], b["finish_reason"]);
          EXPECT_EQ(a["seed"], b["seed"]);
          EXPECT_EQ(b["seed"], 7 + i);
          EXPECT_EQ(a["logprobs"].is_null(), b["logprobs"].is_null());
          if (logprobs) {
            EXPECT_EQ(a["logprobs"]["content"], b["logprobs"]["content"]);
          }
        }
      }
}

TEST_F(ChatTest, LogprobsSpellTheContent) {
  start();
  Json body = chat("ABC", 40);
  body["logprobs"] = true;
  body["top_logprobs"] = 3;
  const Json answer = whole(body);
  std::string text;
  for (const Json& token : answer["choices"][0]["logprobs"]["content"]) {
    text += token["token"].get<std::string>();
    EXPECT_EQ(token["bytes"].size(), 1u);
    EXPECT_EQ(token["bytes"][0], static_cast<unsigned char>(text.back()));
    EXPECT_LE(token["logprob"], 0);
    ASSERT_EQ(token["top_logprobs"].size(), 3u);
    EXPECT_EQ(token["top_logprobs"][0]["token"], token["token"]);
  }
  EXPECT_EQ(answer["choices"][0]["message"]["content"], text);
}

TEST_F(ChatTest, ManyAtOnceGetTheirOwnAnswers) {
  start({.max_sequences = 8});
  std::vector<std::shared_ptr<RecordedReply>> replies;
  std::vector<std::string> expected;
  for (int i = 0; i < 50; ++i) {
    const std::string text = {static_cast<char>('A' + i % 26), static_cast<char>('A' + i / 26)};
    Json body = chat(text, 25);
    expected.push_back(whole(body)["choices"][0]["message"]["content"]);
    body["stream"] = i % 2 == 0;
    replies.push_back(post(body, i % 3 == 0 ? "a" : "b"));
  }
  for (int i = 0; i < 50; ++i) {
    const HttpResponse response = replies[static_cast<size_t>(i)]->wait();
    std::string text;
    if (i % 2 == 1) {
      text = Json::parse(response.body)["choices"][0]["message"]["content"];
    } else {
      for (const std::string& event : events_of(response.body))
        if (event != "[DONE]")
          text += Json::parse(event)["choices"][0]["delta"].value("content", "");
    }
    EXPECT_EQ(text, expected[static_cast<size_t>(i)]);
  }
}

TEST_F(ChatTest, ASecondTurnReusesTheFirst) {
  start();
  const Json first = whole(chat("ABCDEFGHIJKLMNOP", 8));
  EXPECT_EQ(first["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
  const std::string said = first["choices"][0]["message"]["content"];
  Json body = chat("ABCDEFGHIJKLMNOP", 8);
  body["messages"].push_back({{"role", "assistant"}, {"content", said}});
  body["messages"].push_back({{"role", "user"}, {"content", "QR"}});
  const int64_t cached = whole(body)["usage"]["prompt_tokens_details"]["cached_tokens"];
  EXPECT_GE(cached, 16);
  // Another key, and another salt, share nothing.
  const Json other = Json::parse(post(body, "other")->wait().body);
  EXPECT_EQ(other["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
  body["cache_salt"] = "mine";
  EXPECT_EQ(whole(body)["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
}

}  // namespace
}  // namespace tensora::serve
