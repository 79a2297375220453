#pragma once

// cuDNN's graph interface, opened when the first op asks for it. The functions and the values that
// we use are declared here, so that Tensora is built on machines without cuDNN. They are those of
// cuDNN 9; cuDNN never changes the meaning of a number.

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace tensora::cuda::cudnn {

using Handle = void*;
using RawDescriptor = void*;

enum class Status : int { success = 0 };

enum class DataType : int {
  float32 = 0,
  float64 = 1,
  float16 = 2,
  int8 = 3,
  int32 = 4,
  uint8 = 6,
  bfloat16 = 9,
  int64 = 10,
  boolean = 11,
  float8_e4m3 = 12,
  float8_e5m2 = 13,
};

enum class Kind : int {  // of descriptors
  pointwise = 0,
  convolution = 1,
  engine = 2,
  engine_config = 3,
  engine_heuristic = 4,
  execution_plan = 5,
  convolution_forward = 10,
  convolution_backward_filter = 11,
  convolution_backward_data = 12,
  operation_pointwise = 13,
  operation_graph = 15,
  variant_pack = 16,
  tensor = 17,
  matmul = 18,
  operation_matmul = 19,
  reduction = 21,
  operation_reduction = 22,
  operation_reshape = 31,
  rng = 32,
  operation_rng = 33,
  operation_sdpa_forward = 41,
  operation_sdpa_backward = 43,
};

enum class Attribute : int {
  pointwise_mode = 0,
  pointwise_math_precision = 1,
  pointwise_axis = 9,
  convolution_compute_type = 100,
  convolution_mode = 101,
  convolution_dilations = 102,
  convolution_strides = 103,
  convolution_post_paddings = 104,
  convolution_pre_paddings = 105,
  convolution_spatial_dims = 106,
  heuristic_mode = 200,
  heuristic_operation_graph = 201,
  heuristic_results = 202,
  engine_config_engine = 300,
  plan_handle = 400,
  plan_engine_config = 401,
  plan_workspace_size = 402,
  forward_alpha = 700,
  forward_beta = 701,
  forward_convolution = 702,
  forward_w = 703,
  forward_x = 704,
  forward_y = 705,
  backward_data_alpha = 706,
  backward_data_beta = 707,
  backward_data_convolution = 708,
  backward_data_w = 709,
  backward_data_dx = 710,
  backward_data_dy = 711,
  backward_filter_alpha = 712,
  backward_filter_beta = 713,
  backward_filter_convolution = 714,
  backward_filter_dw = 715,
  backward_filter_x = 716,
  backward_filter_dy = 717,
  operation_pointwise_descriptor = 750,
  operation_pointwise_x = 751,
  operation_pointwise_b = 752,
  operation_pointwise_y = 753,
  operation_pointwise_dx = 756,
  operation_pointwise_dy = 757,
  operation_pointwise_t = 758,
  graph_handle = 800,
  graph_operations = 801,
  tensor_alignment = 900,
  tensor_data_type = 901,
  tensor_dimensions = 902,
  tensor_strides = 903,
  tensor_unique_id = 906,
  tensor_is_virtual = 907,
  tensor_is_by_value = 908,
  pack_unique_ids = 1000,
  pack_data_pointers = 1001,
  pack_workspace = 1003,
  engine_numerical_note = 1303,
  matmul_compute_type = 1500,
  operation_matmul_a = 1520,
  operation_matmul_b = 1521,
  operation_matmul_c = 1522,
  operation_matmul_descriptor = 1523,
  reduction_operator = 1600,
  reduction_compute_type = 1601,
  operation_reduction_x = 1610,
  operation_reduction_y = 1611,
  operation_reduction_descriptor = 1612,
  operation_reshape_x = 2200,
  operation_reshape_y = 2201,
  rng_distribution = 2300,
  rng_bernoulli_probability = 2305,
  operation_rng_y = 2310,
  operation_rng_seed = 2311,
  operation_rng_descriptor = 2312,
  operation_rng_offset = 2313,
};

/// The type of an attribute's value.
enum class ValueType : int {
  handle = 0,
  data_type = 1,
  boolean = 2,
  int64 = 3,
  float32 = 4,
  float64 = 5,
  pointer = 6,
  convolution_mode = 7,
  heuristic_mode = 8,
  numerical_note = 11,
  pointwise_mode = 14,
  descriptor = 15,
  reduction_operator = 18,
  int32 = 23,
  rng_distribution = 29,
};

enum class ConvolutionMode : int { convolution = 0, cross_correlation = 1 };
enum class HeuristicMode : int { b = 1, fallback = 2, a = 3 };
enum class NumericalNote : int {
  tensor_core = 0,
  down_convert_inputs = 1,
  nondeterministic = 4,
};
enum class PointwiseMode : int {
  add = 0,
  mul = 1,
  min = 2,
  max = 3,
  div = 6,
  sub = 9,
  exp = 13,
  log = 15,
  identity = 21,
  relu = 100,
  cmp_ge = 303,
  cmp_gt = 302,
  cmp_lt = 304,
  gen_index = 501,
  select = 601,
};
enum class ReductionOperator : int { add = 0, max = 3 };
enum class RngDistribution : int { bernoulli = 0, uniform = 1, normal = 2 };

struct Library {
  size_t (*version)();
  const char* (*error_string)(Status);
  void (*last_error)(char* message, size_t most);  // null before cuDNN 9
  Status (*create)(Handle*);
  Status (*set_stream)(Handle, cudaStream_t);
  Status (*create_descriptor)(Kind, RawDescriptor*);
  Status (*destroy_descriptor)(RawDescriptor);
  Status (*finalize)(RawDescriptor);
  Status (*set_attribute)(RawDescriptor, Attribute, ValueType, int64_t count, const void* values);
  Status (*get_attribute)(RawDescriptor, Attribute, ValueType, int64_t wanted, int64_t* count,
                          void* values);
  Status (*execute)(Handle, RawDescriptor plan, RawDescriptor variant_pack);

  Library();
};

/// Throws an Error that says what is missing if cuDNN cannot be opened; throws again when asked
/// again.
const Library& library();

/// Throws an Error that names the op, the call and cuDNN's reason.
void check_status(Status status, std::string_view op, std::string_view call);

/// This thread's handle for the device, bound to the thread's current stream. A handle must not be
/// used by two threads at once, so every thread has its own; it is reused after the thread's end.
Handle handle(int device, std::string_view op);

}  // namespace tensora::cuda::cudnn
