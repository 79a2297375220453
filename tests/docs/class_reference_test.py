#!/usr/bin/env python3
"""Checks tools/class_reference.py: what a page shows of a header, and that every public class is on a page."""
import argparse
import pathlib
import re
import sys

sys.dont_write_bytecode = True

HEADER = '''
#pragma once
#include <vector>
namespace tensora::nn {
class Elsewhere;
namespace detail { int hidden(); }
struct ThingOptions {
  bool bias = true;   // whether there is one
  std::vector<int> sizes = {1, 2};
};
/// Says what a thing is:
///
///     Thing thing(3);
class Thing : public Layer<Thing> {
 public:
  explicit Thing(int size, ThingOptions options = {}) : size_{size}, options_(options) {}
  Thing& operator=(const Thing&) = delete;
  /// The size.
  int size() const { return size_; }
  enum class Kind { small, large };
  static constexpr int kLimit = 4;
 protected:
  void inner();
 private:
  int size_;
  ThingOptions options_;
};
extern template class Conv<1>;
using Alias = Conv<1>;
/// Does it.
template <class T>
void run(const T& value, const char* text = "a;b{") { value.go(); }
}  // namespace tensora::nn
'''
SHOWN = '''```c++
struct ThingOptions {
  bool bias = true;  // whether there is one
  std::vector<int> sizes = {1, 2};
};
```

```c++
class Thing : public Layer<Thing> {
  explicit Thing(int size, ThingOptions options = {});
  // The size.
  int size() const;
  enum class Kind { small, large };
  static constexpr int kLimit = 4;
};
```
Says what a thing is:
```c++
Thing thing(3);
```

```c++
using Alias = Conv<1>;
```

```c++
template <class T> void run(const T& value, const char* text = "a;b{");
```
Does it.
'''


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    sys.path.insert(0, str(arguments.root / "tools"))
    import class_reference

    arguments.work.mkdir(parents=True, exist_ok=True)
    header = arguments.work / "thing.h"
    header.write_text(HEADER)
    class_reference.ROOT = arguments.work
    shown = class_reference.header_section(header).split("\n\n", 1)[1]
    if shown != SHOWN:
        raise SystemExit(f"expected\n{SHOWN}\ngot\n{shown}")

    class_reference.ROOT = arguments.root
    pages, missing = class_reference.pages(""), []
    for page, (_, source) in class_reference.PAGES.items():
        for path in class_reference.headers_of(source):
            text = path.read_text()
            if "// Internal header" in text:
                continue
            text = re.sub(r"namespace (\w+::)?detail \{.*?\n\}  // namespace", "", text, flags=re.S)
            for name in re.findall(r"^(?:class|struct) (\w+)(?: final)?(?: : [^;{]*)? \{", text, re.M):
                if not re.search(rf"\b{name}\b", pages[page]):
                    missing.append(f"{path.name}: {name}")
    if missing:
        raise SystemExit("classes that are on no page: " + ", ".join(missing))
    print(f"{len(pages)} pages of classes are complete")


if __name__ == "__main__":
    main()
