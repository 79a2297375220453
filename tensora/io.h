#pragma once

// Files: tensors and training state, saved and loaded.

#include "tensora/io/checkpoint_manager.h"
#include "tensora/io/load.h"
#include "tensora/io/npy.h"
#include "tensora/io/pytorch.h"
#include "tensora/io/safetensors.h"
#include "tensora/io/snapshot.h"
#include "tensora/io/state.h"
