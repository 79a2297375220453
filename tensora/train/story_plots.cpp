#include "tensora/train/story_grammar.h"

// The plots. Names of facts: hero, friend (names), kind, friend_kind, he, him, his and fhe, fhim,
// fhis (the friend's), elder and ehe, ehim, ehis, trait, home, place, thing ("kite"), painted ("red
// kite"; painted_hat and so on have the same colour), found ("danced in the wind above"), spot,
// other_spot, food, weather.

namespace tensora::train {
namespace {

constexpr std::string_view opening =
    "[Once upon a time|One day|Long ago|Once], there was a [little|young|small] {kind} "
    "[named|called] {hero}. {Hero} lived {home} with {his} {elder}. "
    "[Everybody|Everyone] [said|knew] that {hero} was a very {trait} {kind}. ";

constexpr std::string_view ending =
    "[That night|In the evening|When the moon came up|Before bed], {hero} told {his} {elder} "
    "[everything|the whole story|all about it]. \"[What a {trait} {kind} you are|I am proud of my "
    "{trait} {kind}|Only a {trait} {kind} could do that]!\" said {his} {elder}. {Hero} "
    "[smiled and fell asleep|yawned and closed {his} eyes|hugged {ehim} and smiled]. The end.";

constexpr std::string_view lost_thing =
    "{Hero} had a {painted}. It was a [present|gift] from {his} {elder}, and {he} [took|carried] "
    "it "
    "everywhere. [One {weather} morning|On a {weather} day], {hero} went to {place} "
    "[to play|for a walk]. [Suddenly the wind blew hard|{Hero} ran after a butterfly|{Hero} "
    "stopped "
    "to pick some flowers], and [a moment later|when {he} looked up] the {painted} was gone! "
    "\"Oh no! Where is my {thing}?\" cried {hero}. {He} looked {spot}, but it was not there. {He} "
    "looked {other_spot}, but it was not there [either|too]. {Hero} sat down and [began to "
    "cry|felt "
    "very sad]. Then a [kind|friendly] {friend_kind} [named|called] {friend} came along. \"Why are "
    "you [sad|crying]?\" asked {friend}. \"I lost my {painted},\" said {hero}. \"[Do not worry|Do "
    "not be sad],\" said {friend}. \"[I saw a {thing} near the old tree|I think I saw it by the "
    "big stone|I know where it is]. [Come with me|Follow me]!\" They [ran|walked|hurried] "
    "together, "
    "and there it was! The {painted} {found} {hero}. \"Thank you, {friend}!\" said {hero}. \"[You "
    "are a good friend|You found it]!\" {Friend} [laughed|smiled], and the two friends played with "
    "the {painted} until [the sun went down|it was time to go home]. ";

constexpr std::string_view fear =
    "But there was one thing {hero} was afraid of: [the dark|deep water|loud thunder|high places]. "
    "{He} had a friend, a {friend_kind} [named|called] {friend}, who was never afraid. [One "
    "{weather} "
    "evening|On a {weather} night], {friend} did not come home from {place}. \"Who will look for "
    "{friend}?\" asked {his} {elder}. {Hero} [was scared|felt {his} heart beat fast], but {he} "
    "[thought of|remembered] {his} friend. \"I will go,\" said {hero}. {He} took {his} "
    "{painted_lamp} and "
    "went [alone|bravely] to {place}. {He} looked {spot} and called, \"{Friend}! {Friend}!\" [At "
    "first|For a while] {he} heard nothing. Then a small voice said, \"I am here, {other_spot}! My "
    "[foot|leg] hurts.\" {Hero} [ran|went] to {friend} and helped {fhim} up. \"Hold on to my "
    "{painted_lamp},\" said {hero}, and together they went home. \"Were you not afraid?\" asked "
    "{friend}. \"[Yes|I was],\" said {hero}, \"but you are my friend, and that is "
    "[stronger|bigger] than fear.\" From that day on, {hero} was [not afraid|never so afraid] "
    "[any more|again]. ";

constexpr std::string_view sharing =
    "{Hero} loved {food} more than anything. [One {weather} day|One {weather} morning], {his} "
    "{elder} "
    "gave {him} a {painted_basket} full of {food}. {Hero} took it to {place}. There {he} met a "
    "{friend_kind} [named|called] {friend}. \"[I am so hungry|That smells so good],\" said "
    "{friend}. "
    "\"May I have some {food}?\" \"No!\" said {hero}. \"It is all mine!\" {Friend} [looked "
    "down|felt "
    "sad] and went away. {Hero} sat down {spot} and ate and ate. But the {food} did not taste good "
    "[when {he} was alone|without a friend]. {He} [thought about|remembered] the sad face of "
    "{friend}. \"I was not kind,\" said {hero}. So {he} picked up the {painted_basket} and looked "
    "for "
    "{friend}. {He} found {fhim} {other_spot}. \"I am sorry, {friend},\" said {hero}. \"[Please "
    "eat "
    "with me|Let us share the {food}].\" {Friend} [smiled|jumped for joy]. They ate all the {food} "
    "together, and it tasted [wonderful|better than ever]. [Soon|Then] the {painted_basket} was "
    "empty, but "
    "{hero} had a new friend. ";

constexpr std::string_view rescue =
    "[One {weather} day|One {weather} morning], {hero} was walking near {place}. {He} heard "
    "somebody "
    "call, \"Help! Help!\" It was a {friend_kind} [named|called] {friend}, who was stuck [in the "
    "mud|in a deep hole|between two stones]. \"[Hold my hand|Take my hand]!\" said {hero}. {He} "
    "pulled and pulled, but {friend} did not move. \"[It does not work|I am not strong enough],\" "
    "said {hero}. \"Wait here. I have an idea!\" {He} ran home and asked {his} {elder} for [a long "
    "rope|a strong rope]. \"Here is a rope,\" said {his} {elder}. \"Be careful!\" {Hero} ran back "
    "and threw the rope to {friend}. {Friend} held it tight, and {hero} pulled again. One, two, "
    "three, and {friend} was free! \"Thank you, {hero}!\" said {friend}. \"[You saved me|Without "
    "you "
    "I would still be stuck].\" [The next day|Later], {friend} came to {hero} and gave {him} a "
    "{painted}. \"This is for you,\" said {friend}, \"because you helped me with the rope.\" "
    "{Hero} "
    "was very happy. The {painted} {found} {hero} that whole day. ";

constexpr std::string_view gift =
    "It was almost the birthday of {his} {elder}, and {hero} wanted to [make|bake] a cake. {He} "
    "had "
    "no {food} for it. So {he} took {his} {painted_basket} and went to {place}. There {he} met "
    "{friend}, a "
    "[clever|friendly] {friend_kind}. \"What are you looking for?\" asked {friend}. \"I need "
    "{food} "
    "for a cake,\" said {hero}. \"[I know a place|I can help you],\" said {friend}. \"There is "
    "{food} {spot}. But first you must help me. I lost my key {other_spot}.\" {Hero} [was "
    "patient|did not mind]. {He} looked {other_spot} and found the key. \"Here is your key, "
    "{friend}!\" said {hero}. \"[You kept your word|Thank you],\" said {friend}, and they filled "
    "the "
    "{painted_basket} with {food}. On the birthday, {hero} [put|set] the cake on the table. "
    "\"[Happy "
    "birthday|This is for you]!\" {he} said. {His} {elder} [laughed with joy|was so surprised]. "
    "\"A "
    "cake with {food}! Who helped you?\" {ehe} asked. \"My friend {friend}, the {friend_kind},\" "
    "said {hero}. ";

constexpr std::string_view way_home =
    "[One {weather} day|One {weather} morning], {hero} wanted to go to {place}. \"If you get lost, "
    "[follow the river|look for the tall tower|listen for the church bells],\" said {his} {elder}. "
    "\"[I will remember|I promise],\" said {hero}. {He} put on a {painted_hat} and left. {He} saw "
    "birds and bees and [ran|walked] further and further. [Soon|After a while] it got dark, and "
    "{hero} did not know the way. {He} looked {spot} and {other_spot}, but there was no path. \"I "
    "am "
    "lost!\" cried {hero}. A {friend_kind} [named|called] {friend} heard {him}. \"What did your "
    "{elder} tell you?\" asked {friend}. {Hero} [thought hard|closed {his} eyes]. Then {he} "
    "remembered the words of {his} {elder}. \"[Come with me|Let us go], {friend}!\" {he} said. "
    "They "
    "went together, step by step, until they saw the light of the window. {His} {elder} stood at "
    "the "
    "door. \"[There you are|You are home]! I saw your {painted_hat} from far away,\" {ehe} said. "
    "\"This is {friend},\" said {hero}. \"{Fhe} helped me to remember.\" ";

constexpr std::string_view promise =
    "{Hero} had [made a promise|promised something]: every day {he} would water the flowers of "
    "{his} "
    "{elder} with {his} {painted_bucket}. [One {weather} day|One {weather} morning], {friend} the "
    "{friend_kind} came to the door. \"Come and play at {place}!\" said {friend}. \"I must water "
    "the "
    "flowers,\" said {hero}. \"You can do it later,\" said {friend}. So {hero} went with {fhim}. "
    "They "
    "played {spot} and ate {food} and forgot the time. When {hero} came home, the flowers were "
    "dry, "
    "and their heads hung down. \"Oh no! I broke my promise,\" said {hero} and [began to cry|felt "
    "very sorry]. {Friend} felt sorry too. \"It was my fault,\" said {friend}. \"I will help "
    "you.\" "
    "They took the {painted_bucket} and carried water [all evening|again and again]. In the "
    "morning, "
    "the flowers [stood tall|opened] again. \"Next time we play later,\" said "
    "{friend}. \"Yes,\" said {hero}, \"a promise is a promise. First the flowers, then the "
    "games!\" ";

constexpr std::string_view practice =
    "{Hero} wanted to learn to [swim|whistle|dance|climb|skate]. \"[It looks so easy|I want it so "
    "much],\" said {hero}. [One {weather} day|One {weather} morning], {he} went to {place} and "
    "tried. "
    "It did not work. {He} tried again {spot}, and it did not work [either|again]. {Hero} threw "
    "{his} "
    "{painted} on the ground. \"I will never learn it!\" {he} shouted. {Friend}, an old "
    "{friend_kind}, [watched|saw] {him} from {other_spot}. \"Do you know how often I tried?\" "
    "asked {friend}. \"[Ten|Twenty|A hundred] times! You tried only two times.\" {Hero} picked up "
    "the "
    "{painted} and thought about that. [The next day|The next morning] {he} came back, and "
    "{friend} "
    "was there too. \"Slowly,\" said {friend}, \"and do not be afraid to fall.\" {Hero} tried a "
    "third "
    "time, and a fourth time. And the fifth time it worked! \"Look, {friend}! I can do it!\" {he} "
    "shouted. \"I knew you could,\" said {friend}. ";

constexpr std::string_view garden =
    "Behind the house, {hero} had a small garden. {He} wanted to grow {food}. [One {weather} "
    "day|One "
    "{weather} morning], {he} found that somebody had eaten [half|a part] of the {food}. \"Who was "
    "it?\" "
    "asked {hero}. {He} hid {spot} with {his} {painted} and waited. [When it got dark|In the "
    "evening], a thin {friend_kind} came from {place}. \"Stop!\" said {hero}. The {friend_kind} "
    "[jumped|shook with fear]. \"Please do not be angry,\" said the {friend_kind}. \"My name is "
    "{friend}. I had "
    "nothing to eat.\" {Hero} [was angry at first|wanted to shout], but then {he} saw how thin "
    "{friend} was. \"You should have asked me,\" said {hero}. \"You are right,\" said {friend}. "
    "\"May "
    "I work in your garden? Then I will eat only what I have earned.\" From that day on, {friend} "
    "and "
    "{hero} worked together {other_spot}, and there was enough for [both|two]. When the work was "
    "done, {hero} gave {friend} the {painted}. \"A gift for the best gardener,\" {he} said. ";

constexpr std::string_view race =
    "[Every year|Every summer] there was a race from {place} to the old mill. {Hero} wanted to win "
    "a "
    "{painted}, for that was the prize. {Friend}, a fast {friend_kind}, wanted to win it too. \"I "
    "am "
    "faster than you,\" said {friend}. \"We will see,\" said {hero}. [It was a {weather} day|On a "
    "{weather} morning everybody came]. One, two, three, go! {Friend} ran far ahead. But {spot}, "
    "{fhe} fell and hurt [{fhis} foot|{fhis} leg]. {Hero} came to {fhim}. {He} saw the mill and "
    "the "
    "{painted}, and nobody was in front of {him}. But {hero} stopped. \"Can you walk?\" {he} "
    "asked. "
    "\"No,\" said {friend}. \"Run, or you will not win!\" \"I do not want to win like this,\" said "
    "{hero}. {He} helped {friend} up, and they walked to the mill together, slowly, as the last "
    "ones. "
    "Everyone [clapped|cheered]. \"The {painted} is for both of you!\" said the {elder} of {hero}. "
    "\"Now I know that you are [better than fast|more than fast],\" said {friend}. \"You are my "
    "friend.\" ";

constexpr std::string_view asides[] = {
    "The sun was shining, and the birds were singing. ",
    "A [soft|warm] wind moved the leaves. ",
    "{Hero} liked to sing when {he} was alone. ",
    "Every morning {he} said hello to the [bees|ducks|sheep]. ",
    "{His} {elder} often told {him} old stories. ",
    "In summer {he} slept with an open window. ",
    "{He} had a warm bed and a soft pillow. ",
    "Sometimes {he} dreamed of [the sea|far lands|the stars]. ",
};

}  // namespace

std::span<const std::string_view> story_plots() {
  static constexpr std::string_view plots[] = {lost_thing, fear,    sharing,  rescue, gift,
                                               way_home,   promise, practice, garden, race};
  return plots;
}

std::string_view story_opening() { return opening; }
std::string_view story_ending() { return ending; }
std::span<const std::string_view> story_asides() { return asides; }

}  // namespace tensora::train
