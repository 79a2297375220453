#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tensora::cli {

/// The whole file; "-" is standard input.
std::string read_file(const std::string& path);
/// Writes a file, or nothing of it; "-" is standard output.
void write_file(const std::string& path, std::string_view text);
/// Throws if `path` is sure not to be writable later: asked before hours of work. "" and "-" pass.
void check_writable(const std::string& path);
/// The parts of a list that commas separate; empty parts are left out.
std::vector<std::string> split_list(const std::string& text);
/// "4M" is 4 × 2^20; also k and G.
int64_t parse_size(const std::string& text);

}  // namespace tensora::cli
