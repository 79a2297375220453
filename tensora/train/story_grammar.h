#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tensora::train {

/// A sequence of random choices that is the same everywhere.
class StoryDice {
 public:
  explicit StoryDice(uint64_t seed) : state_(seed) {}
  uint64_t roll(uint64_t sides);
  template <class T>
  const T& pick(std::span<const T> choices) {
    return choices[roll(choices.size())];
  }

 private:
  uint64_t state_;
};

struct StoryName {
  std::string_view name;
  bool female;
};
struct StoryThing {
  std::string_view noun;
  std::string_view sound;  // what it does when it is found again
};

// The words; judge_story knows them too.
std::span<const StoryName> story_names();
std::span<const std::string_view> story_colours();
std::span<const StoryThing> story_things();
/// Grown-ups, with whether they are female.
std::span<const StoryName> story_elders();
/// Texts in the notation of StoryTeller: how a story starts, what happens, what may be said on the
/// way, how it ends.
std::string_view story_opening();
std::span<const std::string_view> story_plots();
std::span<const std::string_view> story_asides();
std::string_view story_ending();
/// Facts that are chosen from a list, by name.
struct StoryChoice {
  std::string_view fact;
  std::span<const std::string_view> choices;
};
std::span<const StoryChoice> story_choices();

/// Tells stories from texts in which `[a|b]` is a choice and `{fact}` a fact of this story; a fact
/// whose name starts with a capital letter is told with one.
class StoryTeller {
 public:
  explicit StoryTeller(uint64_t seed);
  std::string tell(std::string_view text);
  /// A whole story with a plot of its own choice.
  std::string story();

 private:
  void invent_person(const std::string& prefix, const StoryName& person);
  std::string fact(std::string_view key) const;

  StoryDice dice_;
  std::map<std::string, std::string, std::less<>> facts_;
};

/// Whether a story of the grammar can contain this word, given in lower case.
bool is_story_word(std::string_view word);
/// The words of a text, in lower case; calls `visit` with each and its place.
void for_each_word(std::string_view text, const std::function<void(std::string, size_t)>& visit);

}  // namespace tensora::train
