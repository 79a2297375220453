#include "tensora/backend/cuda/fft/fft.h"

#include <cufft.h>

#include <algorithm>
#include <list>
#include <mutex>

#include "tensora/backend/cuda/memory/scratch.h"
#include "tensora/backend/cuda/runtime/capture.h"
#include "tensora/backend/cuda/runtime/checked.h"
#include "tensora/backend/cuda/runtime/dynamic_library.h"
#include "tensora/backend/cuda/runtime/runtime.h"

namespace tensora::cuda {
namespace {

struct Cufft {
  decltype(cufftCreate)* create;
  decltype(cufftDestroy)* destroy;
  decltype(cufftSetAutoAllocation)* set_auto_allocation;
  decltype(cufftMakePlanMany64)* make_plan;
  decltype(cufftSetStream)* set_stream;
  decltype(cufftSetWorkArea)* set_work_area;
  decltype(cufftExecC2C)* c2c;
  decltype(cufftExecZ2Z)* z2z;
  decltype(cufftExecR2C)* r2c;
  decltype(cufftExecD2Z)* d2z;
  decltype(cufftExecC2R)* c2r;
  decltype(cufftExecZ2D)* z2d;

  Cufft() {
    const DynamicLibrary library({"libcufft.so.12", "libcufft.so"}, "a Fourier transform");
    library.load(create, "cufftCreate");
    library.load(destroy, "cufftDestroy");
    library.load(set_auto_allocation, "cufftSetAutoAllocation");
    library.load(make_plan, "cufftMakePlanMany64");
    library.load(set_stream, "cufftSetStream");
    library.load(set_work_area, "cufftSetWorkArea");
    library.load(c2c, "cufftExecC2C");
    library.load(z2z, "cufftExecZ2Z");
    library.load(r2c, "cufftExecR2C");
    library.load(d2z, "cufftExecD2Z");
    library.load(c2r, "cufftExecC2R");
    library.load(z2d, "cufftExecZ2D");
  }
};

const Cufft& cufft() {
  static const Cufft functions;
  return functions;
}

void check_fft(cufftResult result, std::string_view op, std::string_view call) {
  check(result == CUFFT_SUCCESS, op, ": ", call, " failed with status ", static_cast<int>(result),
        "; the last ops were ", recent_launches());
}

struct Key {
  int device;
  FftKind kind;
  DType parts;
  Shape sizes;
  int64_t count;
  std::optional<FftLines> from, to;

  bool operator==(const Key&) const = default;
};

struct Plan {
  Key key;
  cufftHandle handle = CUFFT_PLAN_NULL;
  size_t work_bytes = 0;
  bool is_recorded = false;  // a graph may use its tables again at any time
};

cufftType type_of(FftKind kind, bool wide) {
  switch (kind) {
    case FftKind::complex:
      return wide ? CUFFT_Z2Z : CUFFT_C2C;
    case FftKind::real_to_complex:
      return wide ? CUFFT_D2Z : CUFFT_R2C;
    default:
      return wide ? CUFFT_Z2D : CUFFT_C2R;
  }
}

/// The plans last used. A plan belongs to one stream while its work is being queued, so all of this
/// happens under the mutex.
struct Plans {
  static constexpr size_t kMost = 128;
  std::mutex mutex;
  std::list<Plan> list;  // the last used first

  Plan& find(const Key& key, std::string_view op) {
    const auto found =
        std::find_if(list.begin(), list.end(), [&](const Plan& plan) { return plan.key == key; });
    if (found == list.end()) {
      list.push_front(make(key, op));
      drop_oldest();
    } else {
      list.splice(list.begin(), list, found);
    }
    list.front().is_recorded |= current_capture() != nullptr;
    return list.front();
  }

 private:
  static Plan make(const Key& key, std::string_view op) {
    const OutsideCapture outside;
    Plan plan{key};
    long long sizes[3] = {};
    std::copy(key.sizes.begin(), key.sizes.end(), sizes);
    check_fft(cufft().create(&plan.handle), op, "cufftCreate");
    cufftResult result = cufft().set_auto_allocation(plan.handle, 0);
    // Steps and distances count where sizes of surrounding arrays are given; lines have none.
    long long* const around = key.from ? sizes : nullptr;
    const FftLines from = key.from.value_or(FftLines()), to = key.to.value_or(FftLines());
    if (result == CUFFT_SUCCESS)
      result = cufft().make_plan(
          plan.handle, key.sizes.size(), sizes, around, from.step, from.distance, around, to.step,
          to.distance, type_of(key.kind, key.parts == DType::float64), key.count, &plan.work_bytes);
    if (result != CUFFT_SUCCESS) cufft().destroy(plan.handle);
    check_fft(result, op,
              concat("cufftMakePlanMany64 of sizes ", key.sizes, " and batch ", key.count));
    return plan;
  }

  // Destroying a plan waits for the device, which is not possible while a graph is recorded.
  void drop_oldest() {
    if (list.size() <= kMost || current_capture()) return;
    for (auto last = std::prev(list.end()); last != list.begin(); --last)
      if (!last->is_recorded) {
        const DeviceGuard guard(last->key.device);
        cufft().destroy(last->handle);
        list.erase(last);
        return;
      }
  }
};

Plans& plans() {
  static auto* const kept = new Plans;  // handles outlive static objects: the driver frees them
  return *kept;
}

cufftResult execute(const Plan& plan, void* from, void* to, int direction) {
  const bool wide = plan.key.parts == DType::float64;
  switch (plan.key.kind) {
    case FftKind::complex:
      return wide ? cufft().z2z(plan.handle, static_cast<cufftDoubleComplex*>(from),
                                static_cast<cufftDoubleComplex*>(to), direction)
                  : cufft().c2c(plan.handle, static_cast<cufftComplex*>(from),
                                static_cast<cufftComplex*>(to), direction);
    case FftKind::real_to_complex:
      return wide ? cufft().d2z(plan.handle, static_cast<cufftDoubleReal*>(from),
                                static_cast<cufftDoubleComplex*>(to))
                  : cufft().r2c(plan.handle, static_cast<cufftReal*>(from),
                                static_cast<cufftComplex*>(to));
    default:
      return wide ? cufft().z2d(plan.handle, static_cast<cufftDoubleComplex*>(from),
                                static_cast<cufftDoubleReal*>(to))
                  : cufft().c2r(plan.handle, static_cast<cufftComplex*>(from),
                                static_cast<cufftReal*>(to));
  }
}

}  // namespace

void run_fft(const FftBatch& batch, void* from, void* to, bool forward) {
  const DeviceGuard guard(batch.device);
  note_launch(batch.op);
  {
    const std::lock_guard lock(plans().mutex);
    const Plan& plan = plans().find(
        {batch.device, batch.kind, batch.parts, batch.sizes, batch.count, batch.from, batch.to},
        batch.op);
    const Scratch work(batch.device, plan.work_bytes);
    check_fft(cufft().set_stream(plan.handle, current_stream(batch.device)), batch.op,
              "cufftSetStream");
    check_fft(cufft().set_work_area(plan.handle, work.data()), batch.op, "cufftSetWorkArea");
    check_fft(execute(plan, from, to, forward ? CUFFT_FORWARD : CUFFT_INVERSE), batch.op,
              "cufftExec");
  }
  after_launch(batch.op, batch.device);
}

}  // namespace tensora::cuda
