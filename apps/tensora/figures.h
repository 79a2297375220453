#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tensora::cli {

/// "1.24 B", "260.0 k": a count as people say it.
std::string count_text(double count);
/// "4.58 GiB".
std::string bytes_text(double bytes);
/// On one line and without anything that a terminal would obey; at most `most` characters.
std::string printable(std::string_view text, size_t most = 100);
/// A word of a command, quoted for a shell where that is needed.
std::string shell_word(const std::string& word);
/// Rows with their columns lined up; the first row is the heading. Columns whose heading begins
/// with '>' stand on the right.
std::string table_text(std::vector<std::vector<std::string>> rows);

}  // namespace tensora::cli
