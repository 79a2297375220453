#pragma once

// Mixed precision: autocast scopes and gradient scaling. See docs/mixed-precision.md.

#include "tensora/amp/grad_scaler.h"
#include "tensora/dispatch/autocast.h"
