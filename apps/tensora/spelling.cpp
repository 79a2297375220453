#include "spelling.h"

#include <algorithm>
#include <numeric>

namespace tensora::cli {
namespace {

// How many letters must be added, dropped or changed, or neighbours swapped, to turn one text into
// the other.
size_t distance(const std::string& a, const std::string& b) {
  std::vector<size_t> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  std::iota(above.begin(), above.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const bool same = a[i - 1] == b[j - 1];
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (same ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before.swap(above);
    above.swap(row);
  }
  return above.back();
}

}  // namespace

std::string nearest(const std::string& word, const std::vector<std::string>& names) {
  std::string found;
  const size_t letters = word.size() - std::min(word.find_first_not_of('-'), word.size());
  size_t least = 1 + letters / 4;
  for (const std::string& name : names) {
    const size_t far = letters > 2 && name.starts_with(word) ? 1 : distance(word, name);
    if (far > least || (far == least && !found.empty())) continue;
    least = far;
    found = name;
  }
  return found;
}

}  // namespace tensora::cli
