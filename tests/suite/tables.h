#pragma once

// The modes that look at all cases together: perf, support, coverage; and ulp, which
// looks at the functors themselves.

#include "tests/suite/harness.h"
#include "tests/suite/report.h"

namespace tensora::suite {

/// Times one big case; the median as text, with the bandwidth its inputs and outputs make.
std::string measure(const Check& check);

/// Writes which op runs on which device and in which dtype, with or without gradient, and whether
/// it has an in-place form, as a Markdown table.
void write_support_table(const Cases& cases, const Options& options, const Setting& setting,
                         Report& report);

/// Runs every case forward, backward and in place, and fails for each registered op that none of
/// them reached.
void check_coverage(const Cases& cases, const Options& options, const Setting& setting,
                    Report& report);

/// Fails for each pointwise functor whose results are further from the exact ones than it states.
void check_ulp(const Options& options, const Setting& setting, Report& report);

}  // namespace tensora::suite
