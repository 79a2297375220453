#include <memory>

#include "commands.h"
#include "files.h"
#include "tensora/base/check.h"
#include "tensora/train/story.h"

namespace tensora::cli {
namespace {

struct StoriesOptions {
  std::string size = "4M", out = "-", judge;
  uint64_t seed = 1;
  int64_t first = 0;
};

// The mean quality of the stories in a text.
void judge(const std::string& path) {
  const std::string text = read_file(path);
  train::StoryQuality sum;
  double count = 0;
  for (size_t start = 0; start < text.size();) {
    const size_t end = std::min(text.find(train::kEndOfText, start), text.size());
    const std::string_view one = std::string_view(text).substr(start, end - start);
    start = end + train::kEndOfText.size();
    if (one.find_first_not_of(" \n") == one.npos) continue;
    const train::StoryQuality quality = train::judge_story(one);
    sum.known_words += quality.known_words;
    sum.sentences += quality.sentences;
    sum.quotes += quality.quotes;
    sum.people += quality.people;
    sum.pronouns += quality.pronouns;
    sum.things += quality.things;
    sum.ending += quality.ending;
    ++count;
  }
  check(count > 0, path, ": holds no story");
  std::printf(
      "%.0f stories: %.3f\n  known words %.3f\n  sentences   %.3f\n  quotes      %.3f\n"
      "  people      %.3f\n  pronouns    %.3f\n  things      %.3f\n  ending      %.3f\n",
      count, sum.mean() / count, sum.known_words / count, sum.sentences / count, sum.quotes / count,
      sum.people / count, sum.pronouns / count, sum.things / count, sum.ending / count);
}

}  // namespace

void add_stories(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "stories", "Write a corpus of children's stories, made by a grammar, to train on");
  auto options = std::make_shared<StoriesOptions>();
  CLI::Option* const writing[] = {
      command->add_option("--size", options->size, "Size of the text: 500k, 4M, 1G"),
      command->add_option("--seed", options->seed, "Another seed, other stories"),
      command
          ->add_option("--first", options->first,
                       "The number of the first story, for a part that was not trained on")
          ->check(CLI::Range(int64_t{0}, int64_t{1} << 53)),
      command->add_option("--out", options->out, "The file; - is standard output")};
  CLI::Option* const judges =
      command->add_option("--judge", options->judge,
                          "Write nothing; tell how well the stories in this file (one after the "
                          "other, with <|endoftext|> between them) hold together");
  for (CLI::Option* option : writing) option->capture_default_str()->excludes(judges);
  command->footer(
      "The stories have people, things and events that later sentences come back to, so that a "
      "good\n"
      "model can be told from a bad one. The same seed gives the same text on every machine.\n\n"
      "Examples:\n"
      "  tensora stories --size 4M --out stories.txt\n"
      "  tensora stories --size 2k                    read a few\n"
      "  tensora stories --judge samples.txt          1.000 is as good as the grammar's own");
  command->callback([options] {
    if (!options->judge.empty()) return judge(options->judge);
    write_file(options->out,
               train::story_corpus(options->seed, parse_size(options->size), options->first));
  });
}

}  // namespace tensora::cli
