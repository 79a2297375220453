#include <algorithm>
#include <bit>
#include <string_view>
#include <unordered_map>

#include "tensora/base/check.h"
#include "tensora/llm/chat/jinja/evaluator.h"
#include "tensora/llm/chat/jinja/text.h"

namespace tensora::llm::jinja {
namespace {

using Args = Arguments;

Value folded(const Value& value, bool case_sensitive) {
  return value.is_text() && !case_sensitive ? Value(to_lower(value.text())) : value;
}

// "a.b.0": attributes and indices, one after the other. What is undefined is the fallback, if there
// is one.
Value at_path(Evaluator& evaluator, Value value, const Value& path,
              const Value* fallback = nullptr) {
  const auto take = [&](const Value& key) {
    value = evaluator.item(value, key);
    if (value.is_undefined() && fallback && !fallback->is_none()) value = *fallback;
  };
  if (path.is_integral()) {
    take(path);
    return value;
  }
  charge(path.weight());
  std::string_view rest = path.text();
  for (;;) {
    const size_t dot = rest.find('.');
    const std::string_view name = rest.substr(0, dot);
    const auto number = parse_integer(name);
    take(number ? Value(*number) : Value(name));
    if (dot == std::string_view::npos) return value;
    rest.remove_prefix(dot + 1);
  }
}

Value length(Evaluator&, const Value& value) {
  if (value.is_undefined()) return 0;
  if (value.is_text()) return code_points(value.text());
  if (value.is_dict()) return value.pairs().size();
  check(value.is_sequence(), "a ", value.type_name(), " has no length");
  return value.items().size();
}

Value join(Evaluator& evaluator, const Value& value, const Args& given) {
  const Bound bound(given, {"d", "attribute"}, "join");
  const std::string separator = bound.text(0, "");
  std::string out;
  bool first = true;
  for (Value item : evaluator.iterate(value)) {
    if (bound.find(1)) item = at_path(evaluator, item, *bound.find(1));
    if (!std::exchange(first, false)) evaluator.append(out, separator);
    evaluator.append_value(out, item);
  }
  return out;
}

// The items whose order by `key` is that of Python's sorted(), which keeps equals as they were.
template <class Key>
List sorted(const List& items, const Key& key, bool reverse) {
  Dict::Pairs keyed;
  for (const Value& item : items) keyed.emplace_back(key(item), item);
  const int64_t rounds = std::bit_width(items.size());
  for (const auto& [order, item] : keyed) charge(rounds * order.weight());
  // A comparison that throws in the midst of a sort is harmless, but one that is not an order is
  // not: so kinds are compared first. Equals need no order, as in Jinja: undefined ones stay.
  const auto before = [](const Value& a, const Value& b) { return !(a == b) && less(a, b); };
  for (size_t i = 1; i < keyed.size(); ++i) {
    before(keyed[0].first, keyed[i].first);
    check(!keyed[i].first.is(Value::Kind::real) || keyed[i].first.real() == keyed[i].first.real(),
          "sort: NaN has no order");
  }
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    return reverse ? before(b.first, a.first) : before(a.first, b.first);
  });
  List out;
  for (auto& [unused, item] : keyed) out.push_back(std::move(item));
  return out;
}

Value sort(Evaluator& evaluator, const Value& value, const Args& given) {
  const Bound bound(given, {"reverse", "case_sensitive", "attribute"}, "sort");
  const auto key = [&](const Value& item) {
    const Value* path = bound.find(2);
    return folded(path && !path->is_none() ? at_path(evaluator, item, *path) : item,
                  bound.flag(1, false));
  };
  return Value::list(sorted(evaluator.iterate(value), key, bound.flag(0, false)));
}

Value dictsort(Evaluator&, const Value& value, const Args& given) {
  const Bound bound(given, {"case_sensitive", "by", "reverse"}, "dictsort");
  const std::string by = bound.text(1, "key");
  check(by == "key" || by == "value", "dictsort: expected by to be key or value, got ", by);
  check(value.is_dict(), "dictsort: expected a dict, got a ", value.type_name());
  List pairs;
  for (const auto& [key, item] : value.pairs().pairs()) pairs.push_back(Value::tuple({key, item}));
  const auto key = [&](const Value& pair) {
    return folded(pair.items()[by == "key" ? 0 : 1], bound.flag(0, false));
  };
  return Value::list(sorted(pairs, key, bound.flag(2, false)));
}

Value unique(Evaluator& evaluator, const Value& value, const Args& given) {
  const Bound bound(given, {"case_sensitive", "attribute"}, "unique");
  List out, seen;
  for (const Value& item : evaluator.iterate(value)) {
    const Value key = folded(bound.find(1) ? at_path(evaluator, item, *bound.find(1)) : item,
                             bound.flag(0, false));
    check_key(key);
    charge(std::ssize(seen) * key.weight());
    if (std::find(seen.begin(), seen.end(), key) != seen.end()) continue;
    seen.push_back(key);
    out.push_back(item);
  }
  return Value::list(std::move(out));
}

template <bool highest>
Value extreme(Evaluator& evaluator, const Value& value, const Args& given) {
  const Bound bound(given, {"case_sensitive", "attribute"}, highest ? "max" : "min");
  const auto key = [&](const Value& item) {
    return folded(bound.find(1) ? at_path(evaluator, item, *bound.find(1)) : item,
                  bound.flag(0, false));
  };
  const List items = evaluator.iterate(value);
  if (items.empty()) return Value::undefined("no aggregated item");
  size_t best = 0;
  Value best_key = key(items[0]);
  for (size_t i = 1; i < items.size(); ++i) {  // one item needs no order
    const Value its_key = key(items[i]);
    if (!(highest ? less(best_key, its_key) : less(its_key, best_key))) continue;
    best = i;
    best_key = its_key;
  }
  return items[best];
}

// Like the filters below, these take what is empty, or none, for an empty list.
Value map(Evaluator& evaluator, const Value& value, const Args& given) {
  List out;
  if (!value.truthy()) return Value::list({});
  const List items = evaluator.iterate(value);
  if (given.positional.empty()) {
    const Bound bound(given, {"attribute", "default"}, "map");
    for (const Value& item : items)
      out.push_back(at_path(evaluator, item, bound.required(0), bound.find(1)));
    return Value::list(std::move(out));
  }
  Args rest = given;
  rest.positional.erase(rest.positional.begin());
  for (const Value& item : items)
    out.push_back(evaluator.apply_filter(given.positional[0].text(), item, rest));
  return Value::list(std::move(out));
}

// select, reject, selectattr, rejectattr: the first argument may name an attribute, the next a
// test.
template <bool keeps, bool by_attribute>
Value select(Evaluator& evaluator, const Value& value, const Args& given) {
  if (!value.truthy()) return Value::list({});
  Args rest = given;
  Value path, test;
  const auto take = [&](Value& to) {
    if (rest.positional.empty()) return;
    to = rest.positional[0];
    rest.positional.erase(rest.positional.begin());
  };
  if (by_attribute) {
    take(path);
    check(!path.is_undefined(), "selectattr: expected the name of an attribute");
  }
  take(test);
  List out;
  for (const Value& item : evaluator.iterate(value)) {
    const Value tested = by_attribute ? at_path(evaluator, item, path) : item;
    const bool holds =
        test.is_undefined() ? tested.truthy() : evaluator.apply_test(test.text(), tested, rest);
    if (holds == keeps) out.push_back(item);
  }
  return Value::list(std::move(out));
}

Value groupby(Evaluator& evaluator, const Value& value, const Args& given) {
  const Bound bound(given, {"attribute", "default", "case_sensitive"}, "groupby");
  const Value& attribute = bound.required(0);
  const auto key = [&](const Value& item) {
    return at_path(evaluator, item, attribute, bound.find(1));
  };
  const auto order = [&](const Value& item) { return folded(key(item), bound.flag(2, false)); };
  List groups, members;
  const List items = sorted(evaluator.iterate(value), order, false);
  for (const Value& item : items)
    check(items.size() == 1 || !key(item).is_undefined(), "groupby: an item has no attribute ",
          attribute.to_text());
  for (size_t i = 0; i < items.size(); ++i) {
    members.push_back(items[i]);
    if (i + 1 < items.size() && order(items[i]) == order(items[i + 1])) continue;
    const Value name = key(members[0]);
    groups.push_back(Value::tuple({name, Value::list(std::exchange(members, {}))}));
  }
  return Value::list(std::move(groups));
}

Value batch(Evaluator& evaluator, const Value& value, const Args& given) {
  const Bound bound(given, {"linecount", "fill_with"}, "batch");
  const int64_t size = bound.required(0).integer();
  check(size > 0 && size <= 100'000, "batch: expected a size from 1 to 100000, got ", size);
  List out, line;
  for (const Value& item : evaluator.iterate(value)) {
    if (std::ssize(line) == size) out.push_back(Value::list(std::exchange(line, {})));
    line.push_back(item);
  }
  if (!line.empty()) {
    const bool fills = bound.find(1) && !bound.find(1)->is_none();
    if (fills) line.resize(static_cast<size_t>(size), *bound.find(1));
    out.push_back(Value::list(std::move(line)));
  }
  return Value::list(std::move(out));
}

Value slice(Evaluator& evaluator, const Value& value, const Args& given) {
  const Bound bound(given, {"slices", "fill_with"}, "slice");
  const int64_t count = bound.required(0).integer();
  check(count > 0 && count <= 100'000, "slice: expected a number from 1 to 100000, got ", count);
  const List items = evaluator.iterate(value);
  const int64_t each = std::ssize(items) / count, longer = std::ssize(items) % count;
  List out;
  auto from = items.begin();
  for (int64_t i = 0; i < count; ++i) {
    const auto to = from + each + static_cast<int64_t>(i < longer);
    List part(from, to);
    // As Jinja does: where all parts are equally long, each gets the value.
    if (bound.find(1) && !bound.find(1)->is_none() && i >= longer) part.push_back(*bound.find(1));
    out.push_back(Value::list(std::move(part)));
    from = to;
  }
  return Value::list(std::move(out));
}

Value reverse(Evaluator& evaluator, const Value& value) {
  List items = evaluator.iterate(value);
  std::reverse(items.begin(), items.end());
  if (!value.is_text()) return Value::list(std::move(items));
  std::string out;
  for (const Value& letter : items) out += letter.text();
  return out;
}

Value sum(Evaluator& evaluator, const Value& value, const Args& given) {
  const Bound bound(given, {"attribute", "start"}, "sum");
  Value out = bound.find(1) ? *bound.find(1) : Value(0);
  for (const Value& item : evaluator.iterate(value))
    out = arithmetic(evaluator, "+", out,
                     bound.find(0) ? at_path(evaluator, item, *bound.find(0)) : item);
  return out;
}

template <bool at_end>
Value outermost(Evaluator& evaluator, const Value& value) {
  const List items = evaluator.iterate(value);
  if (items.empty()) return Value::undefined("an item of an empty list");
  return at_end ? items.back() : items.front();
}

const std::unordered_map<std::string_view, Filter>& table() {
  static const std::unordered_map<std::string_view, Filter> all = {
      {"length", {length, Cost::length}},
      {"count", {length, Cost::length}},
      {"list",
       {[](Evaluator& e, const Value& v) { return Value::list(e.iterate(v)); }, Cost::length}},
      {"items",
       {[](Evaluator& e, const Value& v) {
          if (v.is_undefined()) return Value::list({});
          check(v.is_dict(), "items: expected a dict, got a ", v.type_name());
          return (*find_method(v, "items"))(e, v, {});
        },
        Cost::length}},
      {"attr",
       {[](Evaluator& e, const Value& v, const Args& given) {
          return e.attribute(v, Bound(given, {"name"}, "attr").required(0).text());
        },
        Cost::constant}},
      {"first", {outermost<false>, Cost::length}},
      {"last", {outermost<true>, Cost::length}},
      {"join", join},
      {"sort", sort},
      {"dictsort", dictsort},
      {"unique", unique},
      {"min", extreme<false>},
      {"max", extreme<true>},
      // What these apply to the items charges for itself.
      {"map", {map, Cost::length}},
      {"select", {select<true, false>, Cost::length}},
      {"reject", {select<false, false>, Cost::length}},
      {"selectattr", {select<true, true>, Cost::length}},
      {"rejectattr", {select<false, true>, Cost::length}},
      {"sum", {sum, Cost::length}},
      {"groupby", groupby},
      {"batch", {batch, Cost::length}},
      {"slice", {slice, Cost::length}},
      {"reverse", {reverse, Cost::length}},
  };
  return all;
}

}  // namespace

const Filter* find_list_filter(std::string_view name) {
  const auto found = table().find(name);
  return found == table().end() ? nullptr : &found->second;
}

}  // namespace tensora::llm::jinja
