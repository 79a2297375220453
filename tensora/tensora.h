#pragma once

// The whole public interface.

#include "tensora/autograd/checkpoint.h"
#include "tensora/autograd/engine.h"
#include "tensora/autograd/function.h"
#include "tensora/autograd/grad_mode.h"
#include "tensora/base/thread_pool.h"
#include "tensora/core/backend.h"
#include "tensora/core/determinism.h"
#include "tensora/core/device.h"
#include "tensora/core/print.h"
#include "tensora/core/random.h"
#include "tensora/core/tensor.h"
#include "tensora/core/text.h"
#include "tensora/dispatch/autocast.h"
#include "tensora/dispatch/build_info.h"
#include "tensora/dispatch/memory_watch.h"
#include "tensora/dispatch/profiler.h"
#include "tensora/ops.h"
#include "tensora/ops/libtorch_names.h"
#include "tensora/ops/operators.h"
