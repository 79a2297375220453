#pragma once

// Optimizers and learning-rate schedulers.

#include "tensora/optim/adam.h"
#include "tensora/optim/adamw.h"
#include "tensora/optim/composite_schedulers.h"
#include "tensora/optim/cyclic_lr.h"
#include "tensora/optim/lr_scheduler.h"
#include "tensora/optim/one_cycle_lr.h"
#include "tensora/optim/optimizer.h"
#include "tensora/optim/reduce_lr_on_plateau.h"
#include "tensora/optim/schedulers.h"
#include "tensora/optim/sgd.h"
