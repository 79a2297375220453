#include "tensora/backend/cuda/cudnn/attention.h"
#include "tensora/backend/cuda/loops/copy.h"
#include "tensora/backend/cuda/memory/scratch.h"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/core/determinism.h"
#include "tensora/ops/attention/attention_call.h"

namespace tensora::cuda {
namespace {

Element element_of_dtype(DType dtype) {
  switch (dtype) {
    case DType::float64:
      return Element::float64;
    case DType::float16:
      return Element::float16;
    case DType::bfloat16:
      return Element::bfloat16;
    case DType::boolean:
      return Element::boolean;
    default:
      return Element::float32;
  }
}

Array4 array_of(const View& view) {
  Array4 result{.data = view.as<char>(), .element = element_of_dtype(view.dtype)};
  for (int d = 0; d < 4; ++d) result.strides[d] = view.strides[d];
  return result;
}

// The inputs that forward and backward share; query is input number `first`.
AttentionCall call_of(const KernelContext& context, size_t first, size_t first_optional,
                      const AttentionAttrs& attrs) {
  const View &q = context.input(first), &k = context.input(first + 1),
             &v = context.input(first + 2);
  const View* const mask = optional_input(context, first_optional);
  const View* const starts_q = optional_input(context, first_optional + 1);
  const View* const starts_k = optional_input(context, first_optional + 2);
  constexpr int64_t kMost = int64_t{1} << 30;
  check(q.sizes[2] < kMost && k.sizes[2] < kMost, context.op,
        ": at most 2^30 queries and keys fit one head on cuda, got ", q.sizes[2], " and ",
        k.sizes[2]);
  AttentionCall call{.query = array_of(q),
                     .key = array_of(k),
                     .value = array_of(v),
                     .dropout = dropout_of(attrs),
                     .sequences = starts_q ? starts_q->sizes[0] - 1 : q.sizes[0],
                     .queries = q.sizes[2],
                     .keys = k.sizes[2],
                     .dropout_cols = starts_q ? attrs.max_seqlen_k : k.sizes[2],
                     .heads = static_cast<int>(q.sizes[1]),
                     .groups = static_cast<int>(k.sizes[1]),
                     .head_size = static_cast<int>(q.sizes[3]),
                     .value_size = static_cast<int>(v.sizes[3]),
                     .scale = scale_of(attrs, q.sizes[3]),
                     .causal = attrs.is_causal};
  if (mask) {
    call.mask = array_of(*mask);
    for (int d = 0; d < 4; ++d) {
      call.mask_sizes[d] = mask->sizes[d];
      if (mask->sizes[d] == 1) call.mask.strides[d] = 0;
    }
  }
  if (starts_q) {
    call.starts_q = starts_q->as<const int>();
    call.starts_k = starts_k->as<const int>();
    call.starts_stride_q = starts_q->strides[0];
    call.starts_stride_k = starts_k->strides[0];
    // Tokens of no sequence.
    for (const View* out : context.out) fill_elements(context.op, *out, 0);
  }
  return call;
}

// Note [Routes of attention]
// Which kernels run depends on dtypes, sizes and layout, never on values. Everything runs by
// attention_general.cu, unless it is bfloat16 or float16 with contiguous, aligned rows and head
// sizes that are multiples of 8 up to 256. Of these
//   - forwards of few queries (16 at most, with those of all heads of a group) run by
//     attention_decode.cu,
//   - on Hopper, those with head sizes up to 128, without mask, dropout and packed sequences, by
//     attention_forward_sm90a.cu and attention_backward_sm90a.cu,
//   - all others by attention_forward_mma.cuh and attention_backward_mma.cuh.
// Before all of these comes cuDNN, on Hopper, for calls without mask, dropout and packed sequences:
// where `library_is_faster` says so, and never in deterministic mode.
bool fits_chunks(const Array4& array) {
  bool fits = array.strides[3] == 1 && reinterpret_cast<uintptr_t>(array.data) % 16 == 0;
  for (int d = 0; d < 3; ++d) fits &= array.strides[d] % 8 == 0;
  return fits;
}

bool fits_tensor_cores(const AttentionCall& call) {
  const bool half =
      call.query.element == Element::bfloat16 || call.query.element == Element::float16;
  const auto size_fits = [](int size) { return size > 0 && size <= 256 && size % 8 == 0; };
  return half && size_fits(call.head_size) && size_fits(call.value_size) &&
         fits_chunks(call.query) && fits_chunks(call.key) && fits_chunks(call.value) &&
         fits_chunks(call.result);
}

// The widest heads need more shared memory than some devices have.
bool fits_shared_memory(int device, const AttentionCall& call, bool backward) {
  const int widest = std::max(call.head_size, call.value_size);
  const int needed = backward ? (widest <= 64    ? 66
                                 : widest <= 128 ? 129
                                                 : 193)
                              : (widest <= 64    ? 48
                                 : widest <= 128 ? 96
                                                 : 96);
  return most_shared_memory(device) >= needed * 1024;
}

bool fits_tensor_cores_backward(const AttentionCall& call) {
  return fits_tensor_cores(call) && fits_chunks(call.grad) && fits_chunks(call.grad_query) &&
         fits_chunks(call.grad_key) && fits_chunks(call.grad_value);
}

// Measured on an H200 with cuDNN 9.19 by bench/cuda_attention_routes.cpp; cuDNN's share of our
// time:
//   heads wider than 128      forward 0.3 to 0.5, backward 0.3 to 0.5 (ours are not for Hopper)
//   heads of 65 to 128        forward 0.7 to 1.0 if there is enough to do and no head of key and
//                             value is shared (then 1.0); backward 0.7 to 0.9
//   heads up to 64            forward 0.8 to 1.0 if there is enough to do (1.1 if not); backward
//   0.8
//                             to 1.0 up to 512 keys, 1.0 to 1.1 beyond
// cuDNN compiles for about a second for every size. Batches of training have round lengths, which
// repeat; prompts have any length, often once. The choice must not depend on what was called
// before: a run whose kernels change in the middle cannot be repeated bit by bit.
bool library_is_faster(int device, const AttentionCall& call, bool backward) {
  if (!runs_sm90a(device) || call.queries % 64 != 0 || call.keys % 64 != 0) return false;
  const int widest = std::max(call.head_size, call.value_size);
  const int64_t rows = call.sequences * call.heads * call.queries;
  constexpr int64_t kEnoughToDo = 160 * 1024, kLittle = 8 * 1024;
  if (widest > 128) return rows >= kLittle;
  if (backward && widest > 64) return rows >= kLittle;
  if (backward) return rows >= kEnoughToDo && call.keys <= 512;
  return rows >= kEnoughToDo && (widest <= 64 || call.heads == call.groups);
}

/// Whether the call may go to cuDNN at all, and is wanted there.
bool goes_to_library(int device, const AttentionCall& call, bool backward) {
  using cudnn::AttentionChoice;
  const AttentionChoice choice = cudnn::attention_choice();
  const bool plain = !call.mask.data && !call.dropout.on && !call.starts_q &&
                     !call.grad_logarithms && call.sequences > 0 && call.queries > 0 &&
                     call.keys > 0;
  if (!plain || is_deterministic() || choice == AttentionChoice::own) return false;
  return choice == AttentionChoice::cudnn || library_is_faster(device, call, backward);
}

/// The same call with the views of its inputs, `first` of which is the query.
cudnn::Attention library_call(const KernelContext& context, size_t first,
                              const AttentionCall& call) {
  return {.op = context.op,
          .device = context.device.index,
          .query = context.input(first),
          .key = context.input(first + 1),
          .value = context.input(first + 2),
          .scale = static_cast<float>(call.scale),
          .causal = call.causal};
}

bool forward_by_library(const KernelContext& context, const AttentionCall& call) {
  if (!fits_tensor_cores(call) || !goes_to_library(context.device.index, call, false)) return false;
  cudnn::Attention library = library_call(context, 0, call);
  library.result = context.output(0);
  library.logarithms = context.output(1);
  return cudnn::attend(library);
}

bool backward_by_library(const KernelContext& context, const AttentionCall& call) {
  if (!fits_tensor_cores_backward(call) || !goes_to_library(context.device.index, call, true))
    return false;
  cudnn::Attention library = library_call(context, 1, call);
  library.backward = true;
  library.grad = context.input(0);
  library.result = context.input(4);
  library.logarithms = context.input(5);
  library.grad_query = context.output(0);
  library.grad_key = context.output(1);
  library.grad_value = context.output(2);
  return cudnn::attend(library);
}

void forward(std::string_view op, int device, const AttentionCall& call) {
  if (!fits_tensor_cores(call)) return general_forward(op, device, call);
  if (forward_of_few_queries(op, device, call)) return;
  if (runs_sm90a(device) && forward_on_hopper(op, device, call)) return;
  if (!fits_shared_memory(device, call, false)) return general_forward(op, device, call);
  if (call.query.element == Element::bfloat16)
    forward_on_tensor_cores<BFloat16>(op, device, call);
  else
    forward_on_tensor_cores<Half>(op, device, call);
}

void attention_kernel(const KernelContext& context, const AttentionAttrs& attrs) {
  AttentionCall call = call_of(context, 0, 3, attrs);
  call.result = array_of(context.output(0));
  call.logarithms = context.output(1).data;
  if (context.output(1).numel == 0 || forward_by_library(context, call)) return;
  forward(context.op, context.device.index, call);
}

void backward(std::string_view op, int device, const AttentionCall& call) {
  const bool fits = fits_tensor_cores_backward(call);
  if (fits && runs_sm90a(device) && backward_on_hopper(op, device, call)) return;
  if (!fits || !fits_shared_memory(device, call, true)) return general_backward(op, device, call);
  if (call.query.element == Element::bfloat16)
    backward_on_tensor_cores<BFloat16>(op, device, call);
  else
    backward_on_tensor_cores<Half>(op, device, call);
}

void attention_backward_kernel(const KernelContext& context, const AttentionAttrs& attrs) {
  const int device = context.device.index;
  AttentionCall call = call_of(context, 1, 6, attrs);
  if (call.heads == 0) return;
  call.grad = array_of(context.input(0));
  call.result = array_of(context.input(4));
  call.logarithms = context.input(5).data;
  call.grad_query = array_of(context.output(0));
  call.grad_key = array_of(context.output(1));
  call.grad_value = array_of(context.output(2));
  if (const View* grads = optional_input(context, 9)) {
    call.grad_logarithms = grads->data;
    for (int d = 0; d < 3; ++d) call.grad_logarithms_strides[d] = grads->strides[d];
  }
  if (!attrs.mask_gradient && backward_by_library(context, call)) return;
  const Scratch delta(device, std::max<size_t>(context.input(5).bytes(), 16));
  call.delta = delta.data();
  attention_delta(context.op, device, call);
  backward(context.op, device, call);
  if (!attrs.mask_gradient) return;
  call.grad_mask = array_of(context.output(3));
  attention_mask_gradient(context.op, device, call);
}

}  // namespace

void register_attention_cuda() {
  attention_op.set_kernel(DeviceType::cuda, attention_kernel);
  attention_backward_op.set_kernel(DeviceType::cuda, attention_backward_kernel);
}

}  // namespace tensora::cuda
