#include <algorithm>
#include <cctype>
#include <set>
#include <utility>

#include "tensora/base/check.h"
#include "tensora/train/story.h"
#include "tensora/train/story_grammar.h"

namespace tensora::train {
namespace {

using WordSet = std::set<std::string, std::less<>>;

double part(double good, double all) { return all > 0 ? good / all : 1; }

const WordSet& all_words() {
  static const WordSet words = [] {
    WordSet out;
    const auto add = [&](std::string_view text) {
      for_each_word(text, [&](std::string word, size_t) { out.insert(std::move(word)); });
    };
    // Facts stand in braces; their words come from the lists.
    const auto add_text = [&](std::string_view text) {
      std::string plain;
      bool inside = false;
      for (const char letter : text) {
        inside = letter == '{' || (inside && letter != '}');
        plain += inside || letter == '}' ? ' ' : letter;
      }
      add(plain);
    };
    add_text(story_opening());
    add_text(story_ending());
    for (const std::string_view plot : story_plots()) add_text(plot);
    for (const std::string_view aside : story_asides()) add_text(aside);
    for (const auto& [fact, choices] : story_choices())
      for (const std::string_view choice : choices) add(choice);
    for (const auto& [name, female] : story_names()) add(name);
    for (const auto& [name, female] : story_elders()) add(name);
    for (const auto& [noun, sound] : story_things()) add(concat(noun, " ", sound));
    add("he she him her his girl boy hat bucket basket lamp");
    return out;
  }();
  return words;
}

bool is_one_of(std::span<const std::string_view> words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

const StoryName* find_person(std::span<const StoryName> people, std::string_view word) {
  for (const StoryName& person : people) {
    const bool same = std::equal(word.begin(), word.end(), person.name.begin(), person.name.end(),
                                 [](char a, char b) { return a == std::tolower(b); });
    if (same) return &person;
  }
  return nullptr;
}

// Speech starts and ends with the same sign, so their number is even, and after an odd one a word
// follows at once.
double judge_quotes(std::string_view text) {
  double opened = 0, closed = 0;
  bool inside = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '"') continue;
    inside = !inside;
    const bool word_follows = i + 1 < text.size() && std::isalnum(uint8_t(text[i + 1])) != 0;
    opened += inside;
    closed += !inside && !word_follows;
  }
  return opened == 0 ? 0 : part(closed, opened);
}

double judge_sentences(std::string_view text) {
  double good = 0, all = 0;
  bool fresh = true;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto letter = static_cast<uint8_t>(text[i]);
    if (fresh && std::isalpha(letter)) {
      ++all;
      good += std::isupper(letter) != 0;
      fresh = false;
    }
    // After ! and ? inside speech, a sentence may go on: "Help!" said Tom.
    if (letter == '.') fresh = true;
  }
  const bool ended = fresh;
  return all == 0 ? 0 : (good + ended) / (all + 1);
}

// Who is in the story: two people with names, the second of whom is introduced as such.
struct Cast {
  std::set<const StoryName*> people;
  bool he = false, she = false;
  double pronouns = 0, answered = 0, strangers = 0;
  std::string hero, last;

  void meet(const StoryName* person) { (person->female ? she : he) = true; }
  void hear(const std::string& word) {
    if (const StoryName* person = find_person(story_names(), word)) {
      if (hero.empty()) hero = word;
      last = word;
      if (people.insert(person).second && people.size() > 2) ++strangers;
      meet(person);
    } else if (const StoryName* elder = find_person(story_elders(), word)) {
      meet(elder);
    }
    const bool male = word == "he" || word == "him" || word == "his";
    const bool female = word == "she" || word == "her";
    pronouns += male || female;
    answered += (male && he) || (female && she);
  }
};

double judge_things(std::string_view text) {
  std::map<std::string, std::string> colours;
  double good = 0, all = 0;
  std::string before;
  for_each_word(text, [&](std::string word, size_t) {
    if (is_one_of(story_colours(), before)) {
      ++all;
      good += colours.emplace(word, before).first->second == before;
    }
    before = std::move(word);
  });
  return part(good, all);
}

}  // namespace

void for_each_word(std::string_view text, const std::function<void(std::string, size_t)>& visit) {
  std::string word;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && std::isalpha(static_cast<uint8_t>(text[i]))) {
      word += static_cast<char>(std::tolower(text[i]));
    } else if (!word.empty()) {
      const size_t start = i - word.size();
      visit(std::exchange(word, {}), start);
    }
  }
}

bool is_story_word(std::string_view word) { return all_words().contains(word); }

double StoryQuality::mean() const {
  return (known_words + sentences + quotes + people + pronouns + things + ending) / 7;
}

StoryQuality judge_story(std::string_view text) {
  StoryQuality quality;
  double words = 0, known = 0;
  Cast cast;
  for_each_word(text, [&](const std::string& word, size_t) {
    ++words;
    known += is_story_word(word);
    cast.hear(word);
  });
  if (words == 0) return quality;
  quality.known_words = known / words;
  quality.sentences = judge_sentences(text);
  quality.quotes = judge_quotes(text);
  quality.people = cast.people.size() < 2 ? 0 : 1 / (1 + cast.strangers);
  quality.pronouns = part(cast.answered, cast.pronouns);
  quality.things = judge_things(text);
  const size_t last = text.find_last_not_of(" \n");
  const bool ended = last != text.npos && text.substr(0, last + 1).ends_with("The end.");
  quality.ending = 0.5 * ended + 0.5 * (!cast.hero.empty() && cast.last == cast.hero);
  return quality;
}

}  // namespace tensora::train
