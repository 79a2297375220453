#pragma once

#include <cstdint>
#include <string>
#include <string_view>

// A corpus to train language models on without a download: short stories for children, made by a
// grammar with a memory. A story has a hero with a name, a trait and a home, a friend, things of
// certain colours, a wish and an obstacle; later sentences come back to earlier facts, so a model
// must do more than continue phrases to do well.

namespace tensora::train {

/// Story number `index` of the corpus of `seed`; the same on every machine.
std::string story(uint64_t seed, int64_t index);

/// What stands between two stories of a corpus; a special token of the tokenizers trained here.
inline constexpr std::string_view kEndOfText = "<|endoftext|>";

/// Stories from number `first` on, until there are at least `bytes` bytes of text.
std::string story_corpus(uint64_t seed, int64_t bytes, int64_t first = 0);

/// How well a text holds together as a story of this corpus. Every figure is from 0 to 1, and 1 for
/// every story of the grammar itself.
struct StoryQuality {
  double known_words = 0;  // the part of its words that the grammar uses
  double sentences = 0;    // the part of its sentences that start and end as sentences do
  double quotes = 0;       // every line of speech that is opened is closed
  double people = 0;       // no name appears that was not introduced, nobody is introduced twice
  double pronouns = 0;     // the part of "he" and "she" that somebody in the story answers to
  double things = 0;       // the part of coloured things that keep their colour
  double ending = 0;       // ends with "The end." and, before that, with the hero

  double mean() const;
};
StoryQuality judge_story(std::string_view text);

}  // namespace tensora::train
