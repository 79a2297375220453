#pragma once

// Networks, for training and for inference.

#include "tensora/models/generate.h"
#include "tensora/models/gpt2.h"
#include "tensora/models/lenet.h"
#include "tensora/models/llama.h"
#include "tensora/models/llama_config.h"
#include "tensora/models/mlp.h"
#include "tensora/models/pretrained.h"
#include "tensora/models/resnet.h"
#include "tensora/models/vit.h"
