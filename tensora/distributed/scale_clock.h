#pragma once

// Internal header of `tensora scale`: event simulation of a step.

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "tensora/distributed/scale_step.h"

namespace tensora::distributed {

/// A machine with a guess about what is not known of it.
struct Guess {
  ScaleMachine machine;
  double rate = 1;  // of computation
};

/// Lists of events on one rank: a stream for computation, one for each group.
class StepClock {
 public:
  StepClock(const Guess& guess, const ScaleLayout& layout, const StageTrace& trace);
  void run(const std::vector<StepEvent>& events);

  double now = 0, communication = 0;
  std::map<std::string, double> exposed;  // waits, by group

 private:
  void compute(double seconds);

  const Guess& guess_;
  const StageTrace& trace_;
  std::vector<double> ends_;
  std::map<std::string, GroupShape> shapes_;
  std::map<std::string, double> free_;
  double busy_until_ = 0;
};

/// The times of one stage, out of which a pipeline's step is put together.
struct StageTimes {
  double forward = 0, backward = 0;
  double reduction = 0;                   // of the gradients, beside and behind the last backward
  double update = 0, exposed_update = 0;  // of which it waits for collectives
  double exposed_tensor = 0, exposed_data = 0;  // of one micro-batch
  double communication = 0;                     // of the step
};

StageTimes times_of(const Guess& guess, const ScaleLayout& layout, const StageTrace& trace,
                    double micro_batches, double update_bytes);

/// The seconds of a step. A long table repeats itself: its time grows linearly with the number of
/// micro-batches.
double pipeline_seconds(const ScaleLayout& layout, int micro_batches,
                        const std::vector<StageTimes>& stages, double message);

}  // namespace tensora::distributed
