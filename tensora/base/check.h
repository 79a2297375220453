#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace tensora {

/// What every mistake of a user throws. The message names the op, the argument, what was expected
/// and what came.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A broken promise inside the library: always our bug, never the user's.
class InternalError : public Error {
 public:
  using Error::Error;
};

/// A tensor that was never set, or was moved from, is used. Where op and argument are known this is
/// caught and told in their words.
class UndefinedTensorError : public Error {
 public:
  using Error::Error;
};

/// Memory (or a configured limit) is exhausted; the process can free tensors and go on.
class OutOfMemoryError : public Error {
 public:
  using Error::Error;
};

// Message parts. A type joins in by defining `append(std::string&, const T&)` in its namespace.
inline void append(std::string& out, std::string_view text) { out += text; }
inline void append(std::string& out, const std::string& text) { out += text; }
inline void append(std::string& out, const char* text) { out += text; }
inline void append(std::string& out, char letter) { out += letter; }
void append(std::string& out, bool value);
void append(std::string& out, int value);
void append(std::string& out, unsigned value);
void append(std::string& out, long value);
void append(std::string& out, unsigned long value);
void append(std::string& out, long long value);
void append(std::string& out, unsigned long long value);
void append(std::string& out, double value);

template <class... Parts>
[[nodiscard]] std::string concat(const Parts&... parts) {
  std::string out;
  (append(out, parts), ...);
  return out;
}

[[noreturn]] void throw_error(const std::string& message);
[[noreturn]] void throw_internal_error(const std::string& message);
[[noreturn]] void throw_undefined_tensor();
[[noreturn]] void rethrow_as(std::string_view function);

template <class... Parts>
[[noreturn, gnu::cold, gnu::noinline]] void fail(const Parts&... parts) {
  throw_error(concat(parts...));
}

/// Throws Error with the concatenated parts unless `ok`. For the user's mistakes.
template <class... Parts>
constexpr void check(bool ok, const Parts&... parts) {
  if (!ok) [[unlikely]]
    fail(parts...);
}

/// Runs the parts of a composed function. What they complain of is told under the name of
/// `function`, which is the one that the user called.
template <class Body>
auto called_as(std::string_view function, const Body& body) -> decltype(body()) {
  try {
    return body();
  } catch (const Error&) {
    rethrow_as(function);
  }
}

template <class... Parts>
[[noreturn, gnu::cold, gnu::noinline]] void fail_internal(const Parts&... parts) {
  throw_internal_error(concat(parts...));
}

/// Throws InternalError unless `ok`. For our own invariants.
template <class... Parts>
constexpr void ensure(bool ok, const Parts&... parts) {
  if (!ok) [[unlikely]]
    fail_internal(parts...);
}

}  // namespace tensora
