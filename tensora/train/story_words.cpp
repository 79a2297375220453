#include "tensora/train/story_grammar.h"

namespace tensora::train {
namespace {

constexpr StoryName names[] = {
    {"Anna", true},  {"Bella", true}, {"Clara", true}, {"Daisy", true},   {"Ella", true},
    {"Flora", true}, {"Greta", true}, {"Hazel", true}, {"Ida", true},     {"Juna", true},
    {"Lily", true},  {"Mia", true},   {"Nora", true},  {"Olive", true},   {"Rosa", true},
    {"Tilda", true}, {"Adam", false}, {"Ben", false},  {"Caspar", false}, {"Dan", false},
    {"Emil", false}, {"Finn", false}, {"Gus", false},  {"Hugo", false},   {"Ivan", false},
    {"Jack", false}, {"Leo", false},  {"Max", false},  {"Noah", false},   {"Oscar", false},
    {"Paul", false}, {"Tom", false},
};
constexpr std::string_view colours[] = {"red",   "blue",   "green", "yellow",
                                        "white", "purple", "brown", "golden"};
constexpr StoryThing things[] = {
    {"ball", "rolled right to the feet of"},
    {"kite", "danced in the wind above"},
    {"boat", "floated slowly back to"},
    {"drum", "went boom in the hands of"},
    {"hat", "sat once more on the head of"},
    {"scarf", "was warm again around the neck of"},
    {"lamp", "shone brightly for"},
    {"bell", "rang softly for"},
    {"basket", "swung on the arm of"},
    {"whistle", "sang a happy note for"},
    {"bucket", "was safe with"},
    {"wagon", "rattled along behind"},
};
constexpr StoryName elders[] = {
    {"mother", true},  {"grandmother", true},  {"aunt", true},
    {"father", false}, {"grandfather", false}, {"uncle", false},
};

constexpr std::string_view kinds[] = {"rabbit", "fox",      "bear",     "mouse", "duck", "cat",
                                      "dog",    "hedgehog", "squirrel", "frog",  "goat", "pony"};
constexpr std::string_view traits[] = {"brave",  "kind",   "clever",  "curious", "patient",
                                       "gentle", "honest", "careful", "cheerful"};
constexpr std::string_view homes[] = {
    "in a little house by the river",
    "in a cosy hole under the hill",
    "at the edge of the forest",
    "in an old mill",
    "in a small village",
    "next to a big lake",
};
constexpr std::string_view places[] = {"the forest", "the river", "the meadow", "the hill",
                                       "the pond",   "the beach", "the market", "the lake"};
constexpr std::string_view spots[] = {
    "under the bridge", "behind the bushes", "under the old oak", "between the stones",
    "near the well",    "behind the barn",   "in the tall grass", "next to the fence"};
constexpr std::string_view foods[] = {"berries", "apples", "nuts", "plums", "carrots", "cherries"};
constexpr std::string_view weathers[] = {"sunny", "cloudy", "windy", "rainy", "cold", "warm"};
constexpr StoryChoice choices[] = {
    {"kind", kinds},       {"friend_kind", kinds}, {"trait", traits},     {"home", homes},
    {"place", places},     {"spot", spots},        {"other_spot", spots}, {"food", foods},
    {"weather", weathers}, {"colour", colours},
};

}  // namespace

std::span<const StoryChoice> story_choices() { return choices; }
std::span<const StoryName> story_names() { return names; }
std::span<const std::string_view> story_colours() { return colours; }
std::span<const StoryThing> story_things() { return things; }
std::span<const StoryName> story_elders() { return elders; }

}  // namespace tensora::train
