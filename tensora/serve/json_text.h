#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tensora::serve {

/// Appends a JSON string, quotes included. Bytes that are not UTF-8 become U+FFFD.
void append_json(std::string& out, std::string_view text);
/// A JSON string of its own.
std::string json_string(std::string_view text);
/// Appends a number; null where it is not finite.
void append_json(std::string& out, double number);
void append_json(std::string& out, float number);
void append_json(std::string& out, int64_t number);
void append_json(std::string& out, uint64_t number);

}  // namespace tensora::serve
