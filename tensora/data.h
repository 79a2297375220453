#pragma once

// Data sets, readers of their files, transforms of images, and the loader of batches.

#include "tensora/data/collate.h"
#include "tensora/data/color_transforms.h"
#include "tensora/data/csv.h"
#include "tensora/data/data_loader.h"
#include "tensora/data/dataset.h"
#include "tensora/data/idx.h"
#include "tensora/data/image.h"
#include "tensora/data/image_folder.h"
#include "tensora/data/labeled_images.h"
#include "tensora/data/sampler.h"
#include "tensora/data/text.h"
#include "tensora/data/tokens.h"
#include "tensora/data/transforms.h"
