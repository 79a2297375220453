#pragma once

// What the environment says. docs/settings.md lists every variable that Tensora reads.

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>

namespace tensora {

/// The text of an environment variable; empty where it is not set.
std::string_view setting(const char* name);

/// The same for a path of a file to be loaded: ignored in a program that runs with more privileges
/// than its user.
std::string_view path_setting(const char* name);

// These throw an Error that names the setting, its value and what is accepted; if the variable is
// unset or empty they return `otherwise`.

/// The position of the value in `accepted`.
size_t choice_setting(const char* name, std::initializer_list<std::string_view> accepted,
                      size_t otherwise);
/// 0 or 1.
bool switch_setting(const char* name, bool otherwise);
int64_t number_setting(const char* name, int64_t least, int64_t most, int64_t otherwise);
/// A number of bytes: 1048576, 1024K, 512M, 2G or a share of `whole` such as 25%.
uint64_t bytes_setting(const char* name, uint64_t whole, uint64_t otherwise);

}  // namespace tensora
