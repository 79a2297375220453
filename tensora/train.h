#pragma once

// Runs: the training loop, logs, progress, charts, language models and image classifiers.

#include "tensora/llm/tokenizer/bpe_tokenizer.h"
#include "tensora/train/chart.h"
#include "tensora/train/csv_logger.h"
#include "tensora/train/image_run.h"
#include "tensora/train/jsonl_logger.h"
#include "tensora/train/language_run.h"
#include "tensora/train/progress_bar.h"
#include "tensora/train/run_history.h"
#include "tensora/train/run_logger.h"
#include "tensora/train/story.h"
#include "tensora/train/tensor_board_logger.h"
#include "tensora/train/trainer.h"
