#pragma once

#include "tests/suite/cases.h"

namespace tensora::suite {

/// Error cases that belong to no room.
void general_mistakes(Cases& cases);

}  // namespace tensora::suite
