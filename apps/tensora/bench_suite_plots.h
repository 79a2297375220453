#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace tensora::cli {

/// The text with the letters that HTML gives a meaning to replaced.
std::string escaped(const std::string& text);

/// SVG plots of one comparison of a suite's result; empty where there is nothing to draw. Colours
/// are CSS variables of the page: --c0 to --c7, --ink, --soft and --grid.
std::string throughput_plot(const nlohmann::ordered_json& comparison);
std::string token_time_plot(const nlohmann::ordered_json& comparison);
std::string memory_plot(const nlohmann::ordered_json& comparison);
/// Decode throughput over a field of the tests, n_sequences or n_depth, where it varies.
std::string curve_plot(const nlohmann::ordered_json& comparison, const char* field,
                       const char* title);

}  // namespace tensora::cli
