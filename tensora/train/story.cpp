#include "tensora/train/story.h"

#include "tensora/base/check.h"
#include "tensora/train/story_grammar.h"

namespace tensora::train {
namespace {

char lower(char letter) { return letter >= 'A' && letter <= 'Z' ? char(letter + 32) : letter; }
char upper(char letter) { return letter >= 'a' && letter <= 'z' ? char(letter - 32) : letter; }

// The parts of `text` between bars that are not inside brackets.
std::vector<std::string_view> alternatives(std::string_view text) {
  std::vector<std::string_view> out;
  size_t start = 0;
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    depth += (text[i] == '[') - (text[i] == ']');
    if (text[i] != '|' || depth > 0) continue;
    out.push_back(text.substr(start, i - start));
    start = i + 1;
  }
  out.push_back(text.substr(start));
  return out;
}

// The place of the bracket that closes the one at the front.
size_t closing(std::string_view text) {
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    depth += (text[i] == '[') - (text[i] == ']');
    if (depth == 0) return i;
  }
  fail_internal("story: a bracket is not closed: ", text);
}

// The bits of SplitMix64: every number of the sequence is mixed well, whatever the seed.
uint64_t mixed(uint64_t bits) {
  bits = (bits ^ bits >> 30) * 0xBF58476D1CE4E5B9u;
  bits = (bits ^ bits >> 27) * 0x94D049BB133111EBu;
  return bits ^ bits >> 31;
}

}  // namespace

uint64_t StoryDice::roll(uint64_t sides) {
  state_ += 0x9E3779B97F4A7C15u;
  return mixed(state_) % sides;
}

StoryTeller::StoryTeller(uint64_t seed) : dice_(seed) {
  for (const auto& [fact, choices] : story_choices())
    facts_[std::string(fact)] = dice_.pick(choices);
  const auto again = [&](const char* fact, const char* other) {
    for (const auto& [name, choices] : story_choices())
      while (name == fact && facts_[fact] == facts_[other]) facts_[fact] = dice_.pick(choices);
  };
  again("friend_kind", "kind");
  again("other_spot", "spot");
  const StoryName hero = dice_.pick(story_names());
  StoryName other = dice_.pick(story_names());
  while (other.name == hero.name) other = dice_.pick(story_names());
  const StoryName elder = dice_.pick(story_elders());
  invent_person("", hero);
  invent_person("f", other);
  invent_person("e", elder);
  facts_["hero"] = hero.name;
  facts_["friend"] = other.name;
  facts_["elder"] = elder.name;
  if (dice_.roll(4) == 0) facts_["kind"] = hero.female ? "girl" : "boy";
  const StoryThing thing = dice_.pick(story_things());
  facts_["thing"] = thing.noun;
  facts_["found"] = thing.sound;
  facts_["painted"] = concat(facts_["colour"], " ", thing.noun);
  for (const char* noun : {"hat", "bucket", "basket", "lamp"})
    facts_[concat("painted_", noun)] = concat(facts_["colour"], " ", noun);
}

void StoryTeller::invent_person(const std::string& prefix, const StoryName& person) {
  facts_[prefix + "he"] = person.female ? "she" : "he";
  facts_[prefix + "him"] = person.female ? "her" : "him";
  facts_[prefix + "his"] = person.female ? "her" : "his";
}

std::string StoryTeller::fact(std::string_view key) const {
  std::string name(key);
  name[0] = lower(name[0]);
  const auto found = facts_.find(name);
  ensure(found != facts_.end(), "story: there is no fact ", key);
  std::string out = found->second;
  if (name[0] != key[0]) out[0] = upper(out[0]);
  return out;
}

std::string StoryTeller::tell(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '{') {
      const size_t end = text.find('}', i);
      out += fact(text.substr(i + 1, end - i - 1));
      i = end;
    } else if (text[i] == '[') {
      const size_t length = closing(text.substr(i));
      const auto parts = alternatives(text.substr(i + 1, length - 1));
      out += tell(dice_.pick(std::span<const std::string_view>(parts)));
      i += length;
    } else {
      out += text[i];
    }
  }
  return out;
}

std::string StoryTeller::story() {
  std::string out = tell(story_opening());
  if (dice_.roll(2) == 0) out += tell(dice_.pick(story_asides()));
  out += tell(dice_.pick(story_plots()));
  return out + tell(story_ending());
}

std::string story(uint64_t seed, int64_t index) {
  return StoryTeller(mixed(seed + 0x9E3779B97F4A7C15u) + static_cast<uint64_t>(index)).story();
}

std::string story_corpus(uint64_t seed, int64_t bytes, int64_t first) {
  check(bytes >= 0, "story_corpus: bytes must not be negative, got ", bytes);
  std::string out;
  out.reserve(static_cast<size_t>(bytes) + 4096);
  for (int64_t i = first; static_cast<int64_t>(out.size()) < bytes; ++i)
    out += concat(story(seed, i), "\n", kEndOfText, "\n");
  return out;
}

}  // namespace tensora::train
