#include "tensora/base/check.h"

#include <cstdio>

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

void throw_undefined_tensor() { throw UndefinedTensorError(); }

void throw_internal_error(const std::string& message) {
  throw InternalError("internal error, please report it: " + message);
}

}  // namespace tensora
