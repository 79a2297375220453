// The targets of the fuzzer without libFuzzer, for every run of the tests: all seeds are read, and
// a few hundred inputs that differ from them a little end in an answer or an Error.

#include <cstdio>
#include <exception>
#include <random>
#include <stdexcept>

#include "targets.h"

namespace tensora::fuzz {
namespace {

std::string mutated(std::string text, std::mt19937& random) {
  for (unsigned changes = 1 + random() % 4; changes > 0 && !text.empty(); --changes) {
    const size_t place = random() % text.size();
    switch (random() % 4) {
      case 0:
        text[place] = static_cast<char>(random());
        break;
      case 1:
        text.erase(place, 1 + random() % 8);
        break;
      case 2:
        text.insert(place, text.substr(random() % text.size(), 1 + random() % 16));
        break;
      default:
        text.resize(place);
    }
  }
  return text;
}

void smoke(const Target& target) {
  std::mt19937 random(17);
  const std::vector<std::string> seeds = target.seeds();
  if (seeds.empty()) throw std::runtime_error("there are no seeds");
  for (const std::string& seed : seeds) run_target(target, seed);
  for (int i = 0; i < 200; ++i) run_target(target, mutated(seeds[random() % seeds.size()], random));
}

}  // namespace
}  // namespace tensora::fuzz

int main() {
  int failures = 0;
  for (const auto& target : tensora::fuzz::targets()) try {
      tensora::fuzz::smoke(target);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "fuzz.smoke: %s: %s\n", target.name, error.what());
      ++failures;
    }
  return failures == 0 ? 0 : 1;
}
