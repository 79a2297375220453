#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>

#include "tensora/base/check.h"
#include "tensora/llm/chat/jinja/evaluator.h"
#include "tensora/llm/chat/jinja/text.h"

namespace tensora::llm::jinja {
namespace {

void check_fits(bool overflowed) { check(!overflowed, "an integer of more than 63 bits"); }

int64_t floor_divided(int64_t a, int64_t b) {
  check(b != 0, "division by zero");
  check_fits(b == -1 && a == INT64_MIN);
  return a / b - static_cast<int64_t>(a % b != 0 && (a < 0) != (b < 0));
}

double power(double a, double b) {
  check(a != 0 || b >= 0, "0 cannot be raised to a negative power");
  check(!(a < 0) || b == std::floor(b), "a negative number raised to a fraction is not real");
  return std::pow(a, b);
}

Value integers(std::string_view sign, int64_t a, int64_t b) {
  int64_t out = 0;
  bool overflowed = false;
  if (sign == "+") overflowed = __builtin_add_overflow(a, b, &out);
  if (sign == "-") overflowed = __builtin_sub_overflow(a, b, &out);
  if (sign == "*") overflowed = __builtin_mul_overflow(a, b, &out);
  check_fits(overflowed);
  if (sign == "+" || sign == "-" || sign == "*") return out;
  if (sign == "//") return floor_divided(a, b);
  if (sign == "%") {
    check(b != 0, "division by zero");
    if (b == -1) return 0;
    // The sign is the divisor's, as in Python.
    const int64_t rest = a % b;
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
  }
  if (sign == "/") {
    check(b != 0, "division by zero");
    return static_cast<double>(a) / static_cast<double>(b);
  }
  // **
  if (b < 0) return power(static_cast<double>(a), static_cast<double>(b));
  int64_t result = 1;
  if (a == 0 || a == 1) return b == 0 ? 1 : a;
  if (a == -1) return b % 2 == 0 ? 1 : -1;
  for (int64_t i = 0; i < b; ++i) check_fits(__builtin_mul_overflow(result, a, &result));
  return result;
}

Value reals(std::string_view sign, double a, double b) {
  if (sign == "+") return a + b;
  if (sign == "-") return a - b;
  if (sign == "*") return a * b;
  if (sign == "**") return power(a, b);
  check(b != 0, "division by zero");
  if (sign == "/") return a / b;
  if (sign == "//") return std::floor(a / b);
  const double rest = std::fmod(a, b);
  if (rest == 0) return std::copysign(0.0, b);
  return (rest < 0) != (b < 0) ? rest + b : rest;
}

Value repeated(Evaluator& evaluator, const Value& what, int64_t times) {
  times = std::max<int64_t>(times, 0);
  if (what.is_text()) {
    // Counted before it is made.
    const auto bytes = static_cast<int64_t>(what.text().size());
    check(bytes == 0 || times <= (int64_t{64} << 20) / bytes, "a text that is too long");
    charge(bytes * times / 16);
    std::string out;
    for (int64_t i = 0; bytes > 0 && i < times; ++i) out += what.text();
    return evaluator.made(std::move(out));
  }
  const int64_t size = std::ssize(what.items());
  check(size == 0 || times <= 10'000'000 / size, "a list that is too long");
  charge(size * times);
  List out;
  for (int64_t i = 0; size > 0 && i < times; ++i)
    out.insert(out.end(), what.items().begin(), what.items().end());
  return what.is(Value::Kind::tuple) ? Value::tuple(std::move(out)) : Value::list(std::move(out));
}

bool is_in(const Value& what, const Value& where) {
  if (where.is_undefined()) return false;
  if (where.is_text()) return find_first(where.text(), what.text()) != std::string::npos;
  if (where.is_dict()) {
    check_key(what);
    return where.pairs().find(what) != nullptr;
  }
  check(where.is_sequence(), "a ", where.type_name(), " cannot be iterated over");
  return std::find(where.items().begin(), where.items().end(), what) != where.items().end();
}

int64_t whole_part(double value) {
  check(std::abs(value) < 9.2e18, "an integer of more than 63 bits");
  return static_cast<int64_t>(value);
}

// Flags, a width and a precision of up to three digits: what C's formats understand, too.
void check_options(std::string_view how) {
  std::string_view rest = how.substr(1);
  const auto digits = [&] {
    size_t count = 0;
    for (; !rest.empty() && rest[0] >= '0' && rest[0] <= '9'; ++count) rest.remove_prefix(1);
    return count <= 3;
  };
  rest.remove_prefix(std::min(rest.find_first_not_of("-+ #0"), rest.size()));
  bool fits = how.size() <= 16 && digits();
  if (fits && rest.starts_with('.')) {
    rest.remove_prefix(1);
    fits = digits();
  }
  check(fits && rest.empty(), "the format ", how.substr(0, 16), " is too long or not a format");
}

// One value by a format of C, whose options are `how`.
std::string formatted(const std::string& how, char kind, const Value& value) {
  if (kind == 's' || kind == 'r') {
    check(how == "%", "the format ", how, kind, " is not supported");
    return kind == 's' ? value.to_text() : value.to_source();
  }
  check_options(how);
  char buffer[2048];
  int length = 0;
  if (std::string_view("dixXo").find(kind) != std::string_view::npos) {
    const auto whole = static_cast<long long>(value.is(Value::Kind::real) ? whole_part(value.real())
                                                                          : value.integer());
    length = std::snprintf(buffer, sizeof buffer, (how + "ll" + kind).c_str(), whole);
  } else {
    check(std::string_view("fFeEgG").find(kind) != std::string_view::npos, "the format %", kind,
          " is not supported");
    length = std::snprintf(buffer, sizeof buffer, (how + kind).c_str(), value.real());
  }
  check(length >= 0 && length < static_cast<int>(sizeof buffer), "a formatted number is too long");
  return std::string(buffer, static_cast<size_t>(length));
}

}  // namespace

Value arithmetic(Evaluator& evaluator, std::string_view sign, const Value& a, const Value& b) {
  for (const Value* value : {&a, &b})
    check(!value->is_undefined(), value->undefined_name(), " is undefined");
  if (a.is_integral() && b.is_integral()) return integers(sign, a.integer(), b.integer());
  if (a.is_number() && b.is_number()) return reals(sign, a.real(), b.real());
  if (sign == "+") {
    if (a.is_text() && b.is_text()) return evaluator.made(a.text() + b.text());
    if (a.kind() == b.kind() && a.is_sequence()) {
      List out;
      out.reserve(a.items().size() + b.items().size());
      out.insert(out.end(), a.items().begin(), a.items().end());
      out.insert(out.end(), b.items().begin(), b.items().end());
      return a.is(Value::Kind::tuple) ? Value::tuple(std::move(out)) : Value::list(std::move(out));
    }
  }
  if (sign == "*") {
    if (b.is_integral() && (a.is_text() || a.is_sequence()))
      return repeated(evaluator, a, b.integer());
    if (a.is_integral() && (b.is_text() || b.is_sequence()))
      return repeated(evaluator, b, a.integer());
  }
  if (sign == "%" && a.is_text()) return percent_format(evaluator, a.text(), b);
  fail("a ", a.type_name(), " and a ", b.type_name(), " cannot be combined by ", sign);
}

bool compares(std::string_view sign, const Value& a, const Value& b) {
  const bool is_search = sign == "in" || sign == "not in";
  charge(is_search ? b.weight() : std::min(a.weight(), b.weight()));
  if (sign == "==") return a == b;
  if (sign == "!=") return !(a == b);
  if (sign == "in") return is_in(a, b);
  if (sign == "not in") return !is_in(a, b);
  for (const Value* value : {&a, &b})
    check(!value->is_undefined(), value->undefined_name(), " is undefined");
  if (sign == "<") return less(a, b);
  if (sign == ">") return less(b, a);
  // Not by negation, which would be wrong for NaN.
  return (sign == "<=" ? less(a, b) : less(b, a)) || a == b;
}

std::string percent_format(Evaluator& evaluator, const std::string& format, const Value& values) {
  std::string out;
  size_t used = 0;
  const bool several = values.is(Value::Kind::tuple);
  const auto next = [&]() -> Value {
    check(several ? used < values.items().size() : used == 0, "too few values for the format");
    ++used;
    return several ? values.items()[used - 1] : values;
  };
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%') {
      out += format[i];
      continue;
    }
    std::optional<Value> named;
    if (format.substr(i + 1, 1) == "(") {
      const size_t close = format.find(')', i);
      check(close != std::string::npos, "a format without its )");
      named = evaluator.item(values, format.substr(i + 2, close - i - 2));
      i = close;
    }
    const size_t end = format.find_first_not_of("-+ #0123456789.", i + 1);
    check(end != std::string::npos, "an incomplete format");
    const std::string how = "%" + format.substr(i + 1, end - i - 1);
    i = end;
    if (format[end] == '%')
      out += '%';
    else
      evaluator.append(out, formatted(how, format[end], named ? *named : next()));
  }
  // As in Python, what has items may also be there to be looked up by name.
  const bool all_used = several ? used == values.items().size()
                                : used == 1 || values.is_dict() || values.is(Value::Kind::list);
  check(all_used, "too many values for the format");
  return evaluator.made(std::move(out));
}

}  // namespace tensora::llm::jinja
