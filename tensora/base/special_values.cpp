#include "tensora/base/special_values.h"

#include "tensora/base/special_pairs.h"

namespace tensora::math {

double special_function(int function, double x) { return value_of_function(function, x); }

double special_pair(int function, double a, double b) { return value_of_pair(function, a, b); }

}  // namespace tensora::math
