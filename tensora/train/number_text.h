#pragma once

#include <string>

namespace tensora::train {

/// The shortest text that reads back as the same number; "nan", "inf" and "-inf".
std::string exact_text(double value);
/// Four significant digits, for people: "12.35", "0.00031", "1.2e-07".
std::string figure_text(double value);
/// "0:07", "12:05", "3:07:00", "2 d 4 h".
std::string duration_text(double seconds);

}  // namespace tensora::train
