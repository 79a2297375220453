#pragma once

// Data sets, readers of their files, transforms of images, and the loader of batches.

#include "tensora/data/collate.h"
#include "tensora/data/data_loader.h"
#include "tensora/data/dataset.h"
#include "tensora/data/sampler.h"
