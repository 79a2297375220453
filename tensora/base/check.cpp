#include "tensora/base/check.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>

#include <cstdio>
#include <cstdlib>
#include <typeinfo>

#include "tensora/base/error_kinds.h"

namespace tensora {

void append(std::string& out, bool value) { out += value ? "true" : "false"; }
void append(std::string& out, int value) { out += std::to_string(value); }
void append(std::string& out, unsigned value) { out += std::to_string(value); }
void append(std::string& out, long value) { out += std::to_string(value); }
void append(std::string& out, unsigned long value) { out += std::to_string(value); }
void append(std::string& out, long long value) { out += std::to_string(value); }
void append(std::string& out, unsigned long long value) { out += std::to_string(value); }

void append(std::string& out, double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  out += text;
}

void throw_error(const std::string& message) { throw Error(message); }

namespace {

// "reshape" for the mangled name of tensora::reshape(...); empty for what is not ours.
std::string function_of(const char* symbol) {
  int status = 0;
  char* text = abi::__cxa_demangle(symbol, nullptr, nullptr, &status);
  std::string name = status == 0 && text ? text : "";
  std::free(text);
  name = name.substr(0, name.find('('));
  if (name.rfind("tensora::", 0) != 0) return {};
  return name.substr(name.rfind("::") + 2);
}

// The function through which the caller's code entered this library, as far as the symbols show:
// most functions use their arguments before an op checks them, and none needs a check of its own.
std::string entered_function() {
  void* frames[64];
  const int count = backtrace(frames, 64);
  Dl_info here, info;
  std::string outermost;
  if (!dladdr(reinterpret_cast<void*>(&throw_undefined_tensor), &here)) return {};
  bool inside = false;  // a sanitizer's backtrace begins with a frame of its own
  for (int i = 0; i < count; ++i) {
    // The address before the return address: a call that does not return can be a function's end.
    const bool known = dladdr(static_cast<const char*>(frames[i]) - 1, &info) != 0;
    if (!known || info.dli_fbase != here.dli_fbase) {
      if (inside) break;
      continue;
    }
    inside = true;
    if (!info.dli_sname) continue;
    if (std::string name = function_of(info.dli_sname); !name.empty()) outermost = std::move(name);
  }
  return outermost == "throw_undefined_tensor" ? std::string() : outermost;
}

}  // namespace

void throw_undefined_tensor() {
  const std::string function = entered_function();
  throw UndefinedTensorError(concat(function, function.empty() ? "" : ": ",
                                    "a tensor is undefined (default-constructed or moved from)"));
}

namespace {

std::string renamed(std::string_view function, std::string_view text) {
  const size_t colon = text.find(": ");
  return concat(function, ": ", colon < text.find(' ') ? text.substr(colon + 2) : text);
}

template <class Kind>
void rethrow_if(const Error& error, std::string_view function) {
  if (typeid(error) == typeid(Kind)) throw Kind(renamed(function, error.what()));
}

}  // namespace

void rethrow_as(std::string_view function) {
  try {
    throw;
  } catch (const Error& error) {
    rethrow_if<Error>(error, function);
    rethrow_if<ValueError>(error, function);
    rethrow_if<IndexError>(error, function);
    rethrow_if<TypeError>(error, function);
    rethrow_if<NotImplementedError>(error, function);
    throw;
  }
}

void throw_internal_error(const std::string& message) {
  throw InternalError("internal error, please report it: " + message);
}

}  // namespace tensora
