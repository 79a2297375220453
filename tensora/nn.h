#pragma once

// Modules: layers, containers, losses and initialisation.

#include "tensora/nn/linear.h"
#include "tensora/nn/module_list.h"
#include "tensora/nn/sequential.h"
