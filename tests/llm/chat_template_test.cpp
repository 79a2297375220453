#include "tensora/llm/chat/chat_template.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "../helpers.h"
#include "../processor_time.h"

namespace tensora::llm {
namespace {

using Json = nlohmann::ordered_json;
using testing::contains;
using testing::error_of;
using testing::ProcessorTime;

constexpr int64_t kNow = 1699963200;  // noon of 14 November 2023, UTC

std::string read(const std::string& name) {
  std::ifstream file(std::string(TENSORA_TESTS) + "/llm/templates/" + name);
  EXPECT_TRUE(file.good()) << name;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// What Jinja itself makes of templates in the manner of real models' (templates/make_goldens.py).
TEST(ChatTemplate, AgreesWithJinja) {
  const Json goldens = Json::parse(read("goldens.json"));
  int rendered = 0;
  for (const Json& golden : goldens) {
    const auto name = golden["template"].get<std::string>();
    const ChatTemplate chat(read(name), "<s>", "</s>");
    const ChatOptions options{.add_generation_prompt = golden["add_generation_prompt"].get<bool>(),
                              .tools = golden["tools"].is_null() ? "" : golden["tools"].dump(),
                              .variables = golden["variables"].dump(),
                              .now = kNow};
    std::string text;
    const std::string error =
        error_of([&] { text = chat.render_json(golden["messages"].dump(), options); });
    if (golden.contains("text")) {
      EXPECT_EQ(error, "") << name;
      EXPECT_EQ(text, golden["text"].get<std::string>()) << name;
      ++rendered;
    } else {
      EXPECT_TRUE(contains(error, "template: line ")) << name << " " << text;
      const auto words = golden["error"].get<std::string>();
      const bool ours = contains(words, "object");  // Python's own words
      EXPECT_TRUE(ours || contains(error, words)) << error;
    }
  }
  EXPECT_GT(rendered, 30);
}

// What continues a message sees it as the template writes it, up to its last letter.
TEST(ChatTemplate, ContinuesTheFinalMessage) {
  const std::vector<Message> question = {{.role = "user", .content = "Who?"}};
  for (const char* name : {"llama2", "llama3", "qwen3", "mistral", "gemma", "phi3", "deepseek"}) {
    const ChatTemplate chat(read(std::string(name) + ".jinja"), "<s>", "</s>");
    for (const std::string content : {"I am", "I am ", "I\n am\n", "", "a\xEF\xB7\x91z"}) {
      std::vector<Message> messages = question;
      messages.push_back({.role = "assistant", .content = content});
      ChatOptions options{
          .add_generation_prompt = false, .continue_final_message = true, .now = kNow};
      const std::string text = chat.render(messages, options);
      EXPECT_TRUE(text.ends_with(content)) << name << text;
      messages.back().content = content + "z!";
      EXPECT_EQ(chat.render(messages, options), text + "z!") << name;
      options.continue_final_message = false;
      EXPECT_TRUE(chat.render(messages, options).starts_with(text)) << name;
    }
  }
  const ChatTemplate silent("{{ messages[0].content }}", "", "");
  const ChatOptions options{.add_generation_prompt = false, .continue_final_message = true};
  const std::vector<Message> two = {{.role = "user"}, {.role = "assistant"}};
  EXPECT_TRUE(
      contains(error_of([&] { silent.render(two, options); }), "does not write the content"));
  EXPECT_TRUE(contains(error_of([&] { silent.render({}, options); }), "no final message"));
  EXPECT_TRUE(contains(error_of([&] { silent.render(two, {.continue_final_message = true}); }),
                       "without a generation prompt"));
}

TEST(ChatTemplate, Messages) {
  const ChatTemplate chat(
      "{% for m in messages %}{{ m.role }}={{ m.content }};{{ m.name }}{{ m.reasoning_content }}"
      "{% for c in m.tool_calls %}{{ c.id }}:{{ c.function.name }}({{ c.function.arguments|tojson "
      "}})"
      "{% endfor %}{{ m.tool_call_id }}{% endfor %}{{ tools[0].x if tools }}{{ extra }}"
      "{{ strftime_now('%Y') }}",
      "", "");
  const std::vector<Message> messages = {
      {.role = "user", .content = "hi", .name = "N"},
      {.role = "assistant",
       .reasoning = "R",
       .tool_calls = {{.id = "1", .name = "f", .arguments = R"({"b": 1, "a": [2.5]})"}}},
      {.role = "tool", .content = "42", .tool_call_id = "1"}};
  EXPECT_EQ(chat.render(messages,
                        {.tools = R"([{"x": 7}])", .variables = R"({"extra": "E"})", .now = kNow}),
            "user=hi;Nassistant=;R1:f({\"b\": 1, \"a\": [2.5]})tool=42;17E2023");
  EXPECT_TRUE(
      contains(error_of([&] { chat.render(messages, {.tools = "{"}); }), "tools: expected JSON"));
  EXPECT_TRUE(
      contains(error_of([&] { chat.render(messages, {.tools = "{}"}); }), "expected a list"));
  EXPECT_TRUE(contains(error_of([&] { chat.render(messages, {.variables = "[]"}); }), "an object"));
  EXPECT_TRUE(contains(error_of([&] { chat.render_json("3"); }), "messages: expected a list"));
}

TEST(ChatTemplate, ChatMlStandsInAndSaysSo) {
  const ChatTemplate own("x{{ messages[0].content }}", "", "");
  EXPECT_EQ(own.notice(), "");
  const ChatTemplate none = ChatTemplate::of_model("", "<s>", "</s>");
  EXPECT_TRUE(contains(none.notice(), "chatml is used"));
  const std::vector<Message> messages = {{.role = "system", .content = "S"},
                                         {.role = "user", .content = "U\n"}};
  EXPECT_EQ(none.render(messages),
            "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nU\n<|im_end|>\n"
            "<|im_start|>assistant\n");
  EXPECT_EQ(ChatTemplate::builtin("chatml", "", "").render({}, {.add_generation_prompt = false}),
            "");
  EXPECT_EQ(ChatTemplate::builtin_names(), std::vector<std::string>{"chatml"});
  EXPECT_TRUE(contains(error_of([] { ChatTemplate::builtin("other", "", ""); }), "got other"));
}

TEST(ChatTemplate, MutatedTemplatesNeverBreakIt) {
  const ProcessorTime time;
  std::mt19937 random(1);
  const std::string messages =
      R"([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}])";
  int rendered = 0, refused = 0;
  for (const char* name : {"qwen3.jinja", "features.jinja", "mistral.jinja", "llama3.jinja"}) {
    const std::string source = read(name);
    for (int i = 0; i < 400; ++i) {
      std::string text = source;
      for (size_t n = 1 + random() % 3; n > 0; --n) {
        const size_t at = random() % text.size();
        switch (random() % 4) {
          case 0:
            text[at] = "{}%#-+()[]|.'\"\\=<~*/,: \nax0\xFF"[random() % 29];
            break;
          case 1:
            text.erase(at, 1 + random() % 20);
            break;
          case 2:
            text.insert(at, text.substr(random() % text.size(), random() % 40));
            break;
          default:
            text.resize(at + 1);
            break;
        }
      }
      try {
        ChatTemplate(text, "<s>", "</s>").render_json(messages, {.now = kNow});
        ++rendered;
      } catch (const Error& error) {
        EXPECT_TRUE(std::string_view(error.what()).starts_with("template: ")) << error.what();
        ++refused;
      }
    }
  }
  EXPECT_GT(rendered, 50);
  EXPECT_GT(refused, 50);
  EXPECT_LT(time.seconds(), 30);
}

}  // namespace
}  // namespace tensora::llm
