// tensora run, chat, bench, perplexity and embed from end to end.
#ifdef TENSORA_CLI
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "../helpers.h"
#include "../program.h"
#include "../real_data.h"
#include "tensora/llm/gguf/gguf_writer.h"
#include "tensora/llm/model_file.h"

namespace tensora::llm {
namespace {

using testing::contains;
using testing::Program;
using testing::read_text;
using testing::TemporaryFolder;
using testing::write_text;
using Words = std::vector<std::string>;

class LlmCli : public ::testing::Test {
 protected:
  void SetUp() override {
    model_ = testing::real_data("stories260K.gguf");
    if (model_.empty()) GTEST_SKIP() << "../shared/data/stories260K.gguf is not there";
  }
  // What the program prints; it must succeed.
  std::string output(const Words& words, const std::string& input = "") {
    const Program program(folder_, words, input);
    EXPECT_EQ(program.wait(), 0) << program.error();
    return program.out();
  }
  // What it complains about; it must fail.
  std::string complaint(const Words& words, int code) {
    const Program program(folder_, words);
    EXPECT_EQ(program.wait(), code) << program.error();
    return program.error();
  }

  TemporaryFolder folder_;
  std::string model_;
};

TEST_F(LlmCli, RunPrintsTheStoryAndNothingElse) {
  const std::string golden = read_text(testing::real_data("stories260K.greedy200.txt"));
  const std::string story =
      output({"run", model_, "-p", "", "-n", "200", "--temp", "0", "--quiet"});
  EXPECT_EQ(story, golden);
  EXPECT_EQ(output({"run", model_, "-f", "-", "-n", "200", "--temp", "0", "-q", "-t", "1"}),
            golden);
  EXPECT_EQ(output({"run", model_, "-n", "5", "--temp", "0"}),
            golden.substr(0, golden.find(",") + 1) + "\n");
}

TEST_F(LlmCli, ADividedModelTellsTheSameStory) {
  const std::string golden = read_text(testing::real_data("stories260K.greedy200.txt"));
  for (const char* ranks : {"2", "3"})
    EXPECT_EQ(output({"run", model_, "-p", "", "-n", "200", "--temp", "0", "-q", "--shard", ranks}),
              golden)
        << ranks;
  EXPECT_TRUE(contains(output({"bench", model_, "--shard", "2", "-p", "8", "-n", "4", "-r", "1"}),
                       "native-shard2"));
  EXPECT_TRUE(
      contains(complaint({"run", model_, "--shard", "2", "--device", "cuda"}, 2), "--shard"));
  EXPECT_TRUE(contains(complaint({"run", model_, "--shard", "9"}, 1), "over 9 ranks"));
}

TEST_F(LlmCli, ADividedModelAnswersInAllFrontEnds) {
  write_text(folder_.path("plain.jinja"), "{{ messages[0].content }}");
  const std::string story = testing::real_data("stories260K.greedy200.txt");
  const auto divided = [&](Words words, const std::string& input = "") {
    const std::string whole = output(words, input);
    words.insert(words.end(), {"--shard", "2"});
    return std::pair(whole, output(words, input));
  };
  const auto [chat, chat_of_two] = divided(
      {"chat", model_, "--template", folder_.path("plain.jinja"), "-n", "8", "--temp", "0", "-q"},
      "Once upon a time\n");
  EXPECT_FALSE(chat.empty());
  EXPECT_EQ(chat, chat_of_two);
  const auto number = [](const std::string& text) {
    std::istringstream words(text.substr(text.find_first_of("-0123456789")));
    double value = 0;
    words >> value;
    return value;
  };
  const auto [perplexity, perplexity_of_two] =
      divided({"perplexity", model_, "-f", story, "-c", "64", "-q"});
  EXPECT_NEAR(number(perplexity), number(perplexity_of_two), 1e-3 * number(perplexity));
  const auto [vector, vector_of_two] = divided({"embed", model_, "a cat"});
  EXPECT_NEAR(number(vector), number(vector_of_two), 1e-4);
}

TEST_F(LlmCli, RunTakesItsPromptInSeveralWays) {
  const Words ending = {"-n", "8", "--temp", "0", "--quiet"};
  const auto story = [&](Words words, const std::string& input = "") {
    words.insert(words.begin(), "run");
    words.insert(words.end(), ending.begin(), ending.end());
    return output(words, input);
  };
  const std::string expected = story({model_, "-p", "Tim and"});
  EXPECT_NE(expected, story({model_, "-p", ""}));
  EXPECT_EQ(story({model_, "Tim and"}), expected);
  EXPECT_EQ(story({"-m", model_, "--prompt", "Tim and"}), expected);
  EXPECT_EQ(story({"-m", model_, "Tim and"}), expected);
  // Options that may be repeated take one word each.
  EXPECT_EQ(story({"--stop", "#", "--logit-bias", "7=-inf", model_, "Tim and"}), expected);
  EXPECT_EQ(story({model_}, "Tim and"), expected);                     // piped in
  EXPECT_EQ(story({model_, "-p", "Tim and"}, "something"), expected);  // -p wins
}

TEST_F(LlmCli, RunTellsMachinesEverything) {
  const std::string text =
      output({"run", model_, "-p", "Once upon a time", "-n", "10", "--seed", "7", "--json"});
  for (const char* part : {"\"prompt_tokens\":5", "\"completion_tokens\":10", "\"seed\":7",
                           "\"finish_reason\":\"length\"", "\"predicted_per_second\":"})
    EXPECT_TRUE(contains(text, part)) << part << " in " << text;
  const Words again = {"run", model_, "-p", "Tim", "-n", "20", "--seed", "11", "--quiet"};
  EXPECT_EQ(output(again), output(again));
}

TEST_F(LlmCli, RunTellsWhatTheUserMightNotExpect) {
  const Program program(folder_, {"run", model_, "--chat", "-p", "hi", "-n", "2", "-v"});
  EXPECT_EQ(program.wait(), 0);
  for (const char* part : {"has no chat template", "first token after", "GB of weights"})
    EXPECT_TRUE(contains(program.error(), part)) << program.error();
}

TEST_F(LlmCli, RunEndsAtCtrlC) {
  const Program program(folder_, {"run", model_, "-n", "-1", "--ignore-eos", "--overflow", "shift",
                                  "--temp", "1", "--quiet"});
  for (int i = 0; i < 500 && program.out().size() < 50; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  program.send(SIGINT);
  EXPECT_EQ(program.wait(), 130);
  EXPECT_GE(program.out().size(), 50u);
}

// Lines apart from those that say which device is used: where the CUDA library is and no GPU, the
// program says why it takes the CPU.
int64_t without_notes(const std::string& error) {
  std::istringstream lines(error);
  int64_t count = 0;
  for (std::string line; std::getline(lines, line);)
    if (!line.starts_with("native-")) ++count;
  return count;
}

TEST_F(LlmCli, MistakesAreOneSentence) {
  write_text(folder_.path("bad.gguf"), "GGUF, but not really");
  write_text(folder_.path("empty.gguf"), "");
  write_text(folder_.path("model.safetensors"), "");
  const struct {
    Words words;
    int code;
    const char* sentence;
  } mistakes[] = {
      {{"run"}, 2, "model is required"},
      {{"run", folder_.path("none.gguf"), "-p", "x"}, 1, "none.gguf"},
      {{"run", folder_.path("bad.gguf"), "-p", "x"}, 1, "bad.gguf"},
      {{"run", folder_.path("empty.gguf"), "-p", "x"}, 1, "the file is empty"},
      {{"run", model_, "-n", "-5"}, 2, "tokens"},
      {{"run", model_, "-c", "-5"}, 2, "--context: Value -5 not in range 0 to 1073741824"},
      {{"run", model_, "-c", "1000000000"}, 1, "it would fit with --context "},
      {{"convert", model_, folder_.path("x.bin")}, 2, "expected FILE.gguf, or a folder"},
      {{"run", model_, "--temp", "nan"}, 2, "temperature"},
      {{"run", model_, "--temp", "-1"}, 2, "temperature"},
      {{"run", model_, "--top-p", "7"}, 2, "top_p"},
      {{"run", model_, "--top_p", "0.5"}, 2, "no option '--top_p'; did you mean '--top-p'?"},
      {{"run", model_, "--device", "gpu"}, 2, "unknown kind in 'gpu'"},
      {{"run", model_, "Once", "upon", "a", "time"}, 2, "'upon' was not expected"},
      {{"run", "none.gguf"}, 1, "there is no file or folder 'none.gguf'\n"},
      {{"inspect", folder_.path("model.safetensors")}, 1, "name the folder that it is in"},
      {{"run", model_, "--grammar", "root ::= ("}, 1, "grammar"},
      {{"run", model_, "-p", std::string(4000, 'x'), "-n", "1"}, 1, "the context of 2048"},
      {{"run", model_, "--device", "cpu", "--require-gpu"}, 2, "exclude"},
      {{"run", model_, "--logit-bias", "x=y"}, 2, "TOKEN=NUMBER"},
      {{"run", model_, "--cache-type", "q9"}, 2, "no KV-cache type 'q9'"},
      {{"bench", model_, "-p", "1-"}, 2, "a range such as"},
      {{"bench", model_, "-p", "4-1"}, 2, "a range such as"},
      {{"bench", model_, "-p", "1-9*1"}, 2, "a range such as"},
      {{"bench", model_, "-p", "0", "-n", "0"}, 2, "nothing to run"},
      {{"bench"}, 2, "expected a MODEL"},
      {{"bench", "--synthetic", "llama9-1b"}, 1, "llama9-1b"},
      {{"bench", "--compare", folder_.path("a"), folder_.path("b")}, 1, "cannot be opened"},
      {{"perplexity", model_}, 2, "--file is required"},
      {{"embed", model_}, 2, "expected texts"},
      {{"run", model_, "--seed", "x"}, 2, "--seed: expected -1"},
      {{"run", model_, "--template-var", "x"}, 2, "--template-var: expected NAME=VALUE"},
      {{"chat", model_, "--overflow", "drop"}, 2, "--overflow"},
      {{"run", model_, "--framework", "magic"}, 1, "there is no framework 'magic'"},
      {{"run", model_, "--framework", "stale"}, 1, "was built for version -1"},
      {{"run", model_, "--framework", "plain", "--device", "cuda"}, 1, "does not run on cuda"},
      {{"run", model_, "--framework", "plain", "--quantize", "q8_0"}, 1, "expected no quantize"},
      {{"run", model_, "-ngl", "99"},
       2,
       "-ngl has no equivalent here: one device runs the whole model"},
      {{"chat", model_, "--cache-type-k=q8_0"}, 2, "use --cache-type"},
      {{"nocommand", "--help"}, 2, "there is no command 'nocommand'"},
      {{"rum", "--help"}, 2, "did you mean 'run'?"},
      {{"train", "nothing", "--help"}, 2, "there is no command 'nothing'"},
  };
  for (const auto& [words, code, sentence] : mistakes) {
    const std::string error = complaint(words, code);
    EXPECT_TRUE(contains(error, sentence)) << sentence << " / " << error;
    EXPECT_EQ(without_notes(error), 1) << error;
  }
}

TEST_F(LlmCli, NothingIsDroppedSilently) {
  const Program program(folder_, {"run", model_, "-p", std::string(200, 'x'), "-n", "3",
                                  "--overflow", "truncate", "-c", "64", "-q"});
  EXPECT_EQ(program.wait(), 0);
  EXPECT_TRUE(contains(program.error(), "tokens of the prompt were dropped")) << program.error();
  const Program longer(folder_, {"run", model_, "-c", "3000", "-n", "1"});
  EXPECT_EQ(longer.wait(), 0);
  EXPECT_TRUE(contains(longer.error(), "trained for contexts of 2048 tokens")) << longer.error();
}

// tests/toy_framework is a library that knows nothing of the program.
TEST_F(LlmCli, AFrameworkFromOutsideRunsEverything) {
  const auto by = [&](const char* framework, Words words, const std::string& input = "") {
    words.insert(words.begin() + 2, {"--framework", framework});
    return output(words, input);
  };
  const std::string story = testing::real_data("stories260K.greedy200.txt");
  write_text(folder_.path("plain.jinja"), "{% for m in messages %}{{ m.content }}{% endfor %}");
  const Words run = {"run", model_, "-p", "Tim and", "-n", "30", "--temp", "0", "--quiet"};
  const Words chat = {"chat",   model_, "--template", folder_.path("plain.jinja"), "-n", "8",
                      "--temp", "0",    "--quiet"};
  EXPECT_EQ(by("plain", run), by("native", run));
  EXPECT_EQ(by("plain", chat, "Once\nLily\n"), by("native", chat, "Once\nLily\n"));
  const Words perplexity = {"perplexity", model_, "-f", story, "-c", "64", "-q"};
  const auto figure = [](const std::string& text) { return std::stod(text.substr(11)); };
  EXPECT_NEAR(figure(by("plain", perplexity)), figure(by("native", perplexity)), 0.01);
  const Words embed = {"embed", model_, "a cat"};
  EXPECT_NEAR(std::stod(by("plain", embed)), std::stod(by("native", embed)), 1e-3);
  const Words bench = {"bench", model_, "-p", "8", "-n", "2", "-r", "1", "--no-bandwidth"};
  EXPECT_TRUE(contains(by("plain", bench), "plain-cpu"));
  // The first one of a list that works; the reasons are told.
  const Program second(folder_, {"run", model_, "--framework", "stale,plain", "-n", "2", "-v"});
  EXPECT_EQ(second.wait(), 0) << second.error();
  for (const char* part : {"stale is not used: ", "plain-cpu is used", " on plain-cpu, loaded in"})
    EXPECT_TRUE(contains(second.error(), part)) << second.error();
}

TEST_F(LlmCli, NamesOfLlamaCppsOptionsWork) {
  const std::string expected =
      output({"run", model_, "-p", "Tim", "-n", "8", "--temp", "0", "-q", "-c", "64"});
  EXPECT_EQ(output({"run", model_, "-p", "Tim", "--n-predict", "8", "--temp", "0", "-q",
                    "--ctx-size=64", "-ub", "16"}),
            expected);
  // What stands behind an option that takes a value is that value.
  EXPECT_EQ(
      output({"run", model_, "-p", "-ngl", "-n", "1", "--temp", "0", "-q", "--echo"}).substr(0, 4),
      "-ngl");
}

TEST_F(LlmCli, TokenizeTakesOneTextInOneForm) {
  write_text(folder_.path("text"), "Tim");
  const std::string file = folder_.path("text");
  const struct {
    Words words;
    const char* sentence;
  } mistakes[] = {{{"tokenize", model_, "Tom", "-f", file}, " excludes "},
                  {{"tokenize", model_, "Tom", "--ids", "--json"}, " excludes "},
                  {{"tokenize", model_, "3", "--decode", "--ids"}, " excludes "},
                  {{"tokenize", model_, "--check", model_, "--json"}, " excludes "}};
  for (const auto& [words, sentence] : mistakes)
    EXPECT_TRUE(contains(complaint(words, 2), sentence)) << sentence;
  EXPECT_EQ(output({"tokenize", model_, "-f", "-", "--ids"}, "Tim"),
            output({"tokenize", model_, "-f", file, "--ids"}));
  EXPECT_TRUE(contains(complaint({"tokenize", "llama9", "x"}, 1), "known models are"));
}

TEST_F(LlmCli, SeedsAreDrawnAndTold) {
  const Words words = {"run", model_, "-p", "Once", "-n", "24", "--temp", "1.5", "--seed", "-1"};
  std::string texts[2], told;
  for (std::string& text : texts) {
    const Program program(folder_, words);
    EXPECT_EQ(program.wait(), 0);
    text = program.out();
    told = program.error();
  }
  EXPECT_NE(texts[0], texts[1]);
  const size_t at = told.find("the seed was ");
  ASSERT_NE(at, told.npos) << told;
  Words again = words;
  again.back() = told.substr(at + 13, told.find('\n', at) - at - 13);
  EXPECT_EQ(output(again), texts[1]);
}

TEST_F(LlmCli, TemplatesHaveVariablesAndPromptsAreShown) {
  write_text(folder_.path("t.jinja"),
             "{% if thinking is defined and not thinking %}no {% endif %}"
             "{{ name|default('?') }}: {{ messages[0].content }}");
  const Words flags = {"--template",
                       folder_.path("t.jinja"),
                       "--template-var",
                       "thinking=false",
                       "--template-var",
                       "name=Lily",
                       "--show-prompt",
                       "-n",
                       "1",
                       "--template-var",
                       "other=1"};
  Words run = {"run", "--chat"}, chat = {"chat", model_, "-q"};
  run.insert(run.end(), flags.begin(), flags.end());
  run.insert(run.end(), {model_, "hello"});  // which are no variables
  chat.insert(chat.end(), flags.begin(), flags.end());
  for (const Words& words : {run, chat}) {
    const Program program(folder_, words, "hello\n");
    EXPECT_EQ(program.wait(), 0) << program.error();
    EXPECT_TRUE(contains(program.error(), "no Lily: hello")) << program.error();
  }
}

TEST_F(LlmCli, ChatDropsNothingUnasked) {
  const std::string file = folder_.path("saved.json");
  write_text(file, "precious");
  const Words words = {"chat", model_, "-n", "4", "-q", "-c", "96", "--overflow", "truncate"};
  const Program program(folder_, words,
                        "Once\n/save " + file + "\n" + std::string(200, 'x') + "\n/bye\n");
  EXPECT_EQ(program.wait(), 0) << program.error();
  EXPECT_TRUE(contains(program.error(), "saved.json exists; /save! ")) << program.error();
  EXPECT_TRUE(contains(program.error(), "tokens of the prompt were dropped")) << program.error();
  EXPECT_EQ(read_text(file), "precious");
  const Program replacing(folder_, words, "Once\n/save! " + file + "\n");
  EXPECT_EQ(replacing.wait(), 0);
  EXPECT_TRUE(contains(read_text(file), "Once"));
}

TEST_F(LlmCli, ChatTakesCommandsAndMessages) {
  write_text(folder_.path("plain.jinja"), "{% for m in messages %}{{ m.content }}{% endfor %}");
  const std::string saved = folder_.path("saved.json");
  const Program program(folder_,
                        {"chat", model_, "--template", folder_.path("plain.jinja"), "-n", "8",
                         "--temp", "0", "--quiet"},
                        "Once upon a time\n/stats\n/undo\n/nonsense\n/set temp x\n/set temp 0\n"
                        "/set top-k 1e300\n/set seed 0.5\n"
                        "Lily and\\\nTom\n/retry\n/save " +
                            saved + "\n/history\n/bye\nnever\n");
  EXPECT_EQ(program.wait(), 0) << program.error();
  const std::string answers = program.out();
  EXPECT_GE(std::count(answers.begin(), answers.end(), '\n'), 3) << answers;
  EXPECT_TRUE(contains(program.error(), "there is no command '/nonsense'")) << program.error();
  EXPECT_TRUE(contains(program.error(), "'x' is no number")) << program.error();
  EXPECT_TRUE(contains(program.error(), "no setting 'top-k' with this value")) << program.error();
  EXPECT_TRUE(contains(program.error(), "no setting 'seed' with this value")) << program.error();
  EXPECT_TRUE(contains(program.error(), "answer 8 tokens")) << program.error();
  EXPECT_TRUE(contains(read_text(saved), "\"Lily and\\nTom\"")) << read_text(saved);
  EXPECT_FALSE(contains(read_text(saved), "Once upon"));
}

TEST_F(LlmCli, BenchWritesLlamaBenchsFormats) {
  const Words few = {"bench", model_, "-p", "8,16",    "-n", "4",
                     "--pg",  "8,4",  "-d", "0-16+16", "-r", "3"};
  const auto with = [&](Words more) {
    more.insert(more.begin(), few.begin(), few.end());
    return more;
  };
  const std::string table = output(with({"--no-bandwidth"}));
  for (const char* part : {"| model", "t/s", "pp8 ", "pp16 @ d16", "tg4 ", "pp8+tg4", "native-cpu"})
    EXPECT_TRUE(contains(table, part)) << part << " in\n" << table;
  const std::string before = folder_.path("before.json"), svg = folder_.path("plot.svg");
  output(with({"-o", "json", "--out", before, "--plot", svg}));
  const std::string json = read_text(before);
  for (const char* part :
       {"\"build_commit\"", "\"n_prompt\": 16", "\"n_gen\": 4", "\"n_depth\": 16", "\"avg_ts\"",
        "\"samples_ns\"", "\"first_token_time\"", "\"peak_tokens_per_second\"",
        "\"jit_compilation_time\"", "\"percent_of_measured\"", "\"type_k\": \"float16\""})
    EXPECT_TRUE(contains(json, part)) << part;
  for (const char* part : {"<svg", ">tokens</text>", ">generation @ d16 "})
    EXPECT_TRUE(contains(read_text(svg), part)) << read_text(svg);
  EXPECT_TRUE(contains(output({"bench", "--compare", before, before}),
                       "verdict: 0 faster, 0 slower, 8 without a difference"));
  const std::string csv = output(with({"-o", "csv", "--no-bandwidth"}));
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 9);
  const std::string lines = output(with({"-o", "jsonl", "--no-bandwidth"}));
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 8);
  const std::string batched =
      output({"bench", model_, "--batched", "-p", "8", "-n", "4", "-s", "1-4*2", "-r", "1"});
  EXPECT_TRUE(contains(batched, "S_TG t/s")) << batched;
  EXPECT_EQ(std::count(batched.begin(), batched.end(), '\n'), 5) << batched;
}

TEST_F(LlmCli, BenchCommandsRepeatTheirTests) {
  const std::string copy = folder_.path("it's a model.gguf"), again = folder_.path("again.json");
  std::filesystem::copy(model_, copy);
  const auto command_in = [](const std::string& line) {
    return nlohmann::json::parse(line).at("command").get<std::string>();
  };
  const std::string command = command_in(
      output({"bench", copy, "--quantize", "q8_0", "--level", "eager", "--no-warmup", "-p", "8",
              "-n", "0", "-r", "1", "-t", "1", "-o", "jsonl", "--no-bandwidth"}));
  for (const char* part : {"s a model.gguf' --quantize q8_0", " --level eager", " --no-warmup"})
    EXPECT_TRUE(contains(command, part)) << command;
  const std::string folder = std::filesystem::path(TENSORA_CLI).parent_path();
  const std::string line =
      concat("PATH='", folder, "' ", command, " --no-bandwidth -o jsonl --out ", again, " > '",
             folder_.path("out"), "' 2>&1");
  ASSERT_EQ(std::system(line.c_str()), 0) << read_text(folder_.path("out"));
  EXPECT_EQ(command_in(read_text(again)), command);
}

TEST_F(LlmCli, BenchSaysWhatBecameSlower) {
  const auto record = [](const char* speeds) {
    return concat(
        "[{\"model_type\": \"m\", \"n_prompt\": 0, \"n_gen\": 8, \"n_depth\": 0, "
        "\"samples_ts\": [",
        speeds, "]}]");
  };
  write_text(folder_.path("a"), record("100, 101, 99, 100"));
  write_text(folder_.path("b"), record("80, 81, 79, 80"));
  write_text(folder_.path("c"), record("90, 110, 95, 108"));
  const auto compare = [&](const char* a, const char* b) {
    return Words{"bench", "--compare", folder_.path(a), folder_.path(b)};
  };
  EXPECT_TRUE(contains(output(compare("b", "a")), "1 faster, 0 slower"));
  EXPECT_TRUE(contains(output(compare("a", "c")), "0 faster, 0 slower, 1 without"));
  complaint(compare("a", "b"), 1);
}

TEST_F(LlmCli, PerplexityAndEmbeddings) {
  const std::string story = testing::real_data("stories260K.greedy200.txt");
  EXPECT_TRUE(
      contains(output({"perplexity", model_, "-f", story, "-c", "64", "-q"}), "perplexity "));
  EXPECT_TRUE(
      contains(output({"perplexity", model_, "-f", story, "-c", "64", "--stride", "16", "--json"}),
               "\"stride\":16"));
  EXPECT_TRUE(contains(complaint({"perplexity", model_, "-f", story, "-c", "500"}, 1),
                       "fewer than the context of 500"));
  const std::string vectors = output({"embed", model_, "a cat", "a dog"});
  EXPECT_EQ(std::count(vectors.begin(), vectors.end(), '\n'), 2);
  EXPECT_EQ(std::count(vectors.begin(), vectors.end(), ' '), 126);  // of 64 numbers each
  EXPECT_TRUE(
      contains(output({"embed", model_, "-f", "-", "--json"}, "one\ntwo\n"), "\"index\":1"));
}

TEST_F(LlmCli, PerplexityCountsSomething) {
  write_text(folder_.path("text"), "Once upon a time there was a girl.");
  const Words words = {"perplexity", model_, "-f", folder_.path("text"), "-q", "-c"};
  const auto with = [&](const char* context) {
    Words all = words;
    all.emplace_back(context);
    return all;
  };
  EXPECT_TRUE(contains(complaint(with("2"), 1), "a context of at least 3 tokens"));
  EXPECT_FALSE(contains(output(with("3")), "nan"));
}

TEST_F(LlmCli, ConvertUsesThePreTokenizerOrRefusesIt) {
  output({"convert", model_, folder_.path("hf")});
  const std::string error =
      complaint({"convert", folder_.path("hf"), folder_.path("x.gguf"), "--pre", "qwen2"}, 1);
  EXPECT_TRUE(contains(error, "a pre-tokenizer can be chosen for byte pairs only")) << error;
}

TEST_F(LlmCli, DefaultsFitAModelOfFewPositions) {
  const ModelFile file = ModelFile::open(model_);
  Metadata metadata = file.metadata();
  metadata.set("llama.context_length", 128);
  StateDict tensors;
  for (const std::string& name : file.names()) tensors.insert(name, file.tensor(name));
  const std::string small = folder_.path("small.gguf");
  write_gguf(small, metadata, tensors);
  const Program bench(folder_, {"bench", small, "-r", "1", "--no-bandwidth"});
  EXPECT_EQ(bench.wait(), 0) << bench.error();
  EXPECT_TRUE(contains(bench.out(), "pp128 ") && contains(bench.out(), "tg128 ")) << bench.out();
  EXPECT_TRUE(contains(bench.error(), "128 positions: pp512 becomes pp128")) << bench.error();
  EXPECT_TRUE(
      contains(output({"bench", small, "-d", "100", "-r", "1", "--no-bandwidth"}), "tg28 @ d100"));
  // What was asked for is not changed.
  EXPECT_TRUE(contains(complaint({"bench", small, "-p", "512", "--no-bandwidth"}, 1),
                       "at most 128 tokens"));
  const std::string story = testing::real_data("stories260K.greedy200.txt");
  EXPECT_TRUE(contains(output({"perplexity", small, "-f", story, "--json"}), "\"context\":128"));
  complaint({"perplexity", small, "-f", story, "-c", "512"}, 1);
}

TEST_F(LlmCli, HelpTeaches) {
  for (const char* name : {"run", "chat", "bench", "perplexity", "embed"})
    EXPECT_TRUE(contains(output({name, "--help"}), "Examples:\n  ")) << name;
}

}  // namespace
}  // namespace tensora::llm
#endif
