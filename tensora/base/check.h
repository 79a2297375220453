#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace tensora {

/// Thrown for every mistake of the user. The message names the op and the argument and says what
/// was expected and what was given.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A violated invariant of the library: always our bug, never the user's.
class InternalError : public Error {
 public:
  using Error::Error;
};

/// An undefined tensor (default-constructed or moved from) was used. Where op and argument are
/// known, this is caught and rethrown with their names.
class UndefinedTensorError : public Error {
 public:
  using Error::Error;
};

/// Memory (or a configured limit) is exhausted; the process can free tensors and go on.
class OutOfMemoryError : public Error {
 public:
  using Error::Error;
};

// Message parts. A type becomes printable here by defining `append(std::string&, const T&)` in its
// namespace.
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

/// Runs the body of a function that is composed of ops. Errors of those ops are reported under the
/// name of `function`, which is what the user called.
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
