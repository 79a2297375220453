#include "tensora/jit/emit_cuda.h"

#include <cstring>
#include <map>
#include <memory>
#include <mutex>

#include "tensora/backend/cuda/loops/fused.cuh"
#include "tensora/backend/cuda/loops/launch_walk.cuh"
#include "tensora/backend/cuda/runtime/nvrtc.h"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/jit/embedded.h"

// Note [One text, three compilers]
// A fused kernel's arithmetic is the functors' own code: the headers are embedded in the library as
// text and included by the kernel. What is generated here is only the wiring: which functor reads
// which value, in which type. Values that eager ops would have stored in a narrower dtype are
// rounded to it, so fused and eager results agree. Attributes are parameters of the launch: the
// functor objects themselves, byte for byte.

namespace tensora::jit {
namespace {

using Input = FusedLayout::Input;

constexpr size_t kFunctorAlignment = 16;

std::string_view element_type(DType dtype) {
  switch (dtype) {
    case DType::boolean:
      return "bool";
    case DType::uint8:
      return "unsigned char";
    case DType::int8:
      return "signed char";
    case DType::int16:
      return "short";
    case DType::int32:
      return "int";
    case DType::int64:
      return "long";
    case DType::float16:
      return "Half";
    case DType::bfloat16:
      return "BFloat16";
    case DType::float32:
      return "float";
    case DType::float64:
      return "double";
    default:
      fail_internal("jit: a fused kernel was asked for ", dtype);
  }
}

std::string_view compute_type(DType dtype) {
  switch (dtype) {
    case DType::float64:
      return "double";
    case DType::int64:
      return "long";
    case DType::float16:
    case DType::bfloat16:
    case DType::float32:
      return "float";
    default:
      return "int";
  }
}

/// Writes the text of one program.
class Writer {
 public:
  Writer(const Program& program, const FusedLayout& layout) : program_(program), layout_(layout) {}

  std::string text() {
    out_ = "#include \"tensora/backend/cuda/loops/fused.cuh\"\n";
    for (int i = 0; i < embedded_file_count; ++i)
      if (std::string_view(embedded_files[i].name).starts_with("tensora/ops/pointwise/"))
        out_ += concat("#include \"", embedded_files[i].name, "\"\n");
    out_ += "\nusing namespace tensora;\nusing namespace tensora::cuda;\n\n";
    write_functors();
    write_compute();
    write_kernel();
    return std::move(out_);
  }

 private:
  size_t inputs() const { return program_.host_inputs.size(); }
  std::string_view type(int value) const {
    return element_type(program_.dtypes[static_cast<size_t>(value)]);
  }

  void write_functors() {
    out_ += "struct Functors {\n";
    for (size_t i = 0; i < program_.instructions.size(); ++i)
      out_ += concat("  alignas(", kFunctorAlignment, ") ",
                     functor_type(*program_.instructions[i].op), " f", i, ";\n");
    out_ += "};\n\n";
  }

  // One element: x0, x1, … are the inputs as they are stored, v… the values as eager ops store
  // them.
  void write_compute() {
    out_ += "__device__ inline void compute(const Functors& functors";
    for (size_t i = 0; i < inputs(); ++i) out_ += concat(", ", type(static_cast<int>(i)), " v", i);
    for (size_t i = 0; i < program_.outputs.size(); ++i)
      out_ += concat(", ", type(program_.outputs[i]), "& y", i);
    out_ += ") {\n";
    for (size_t i = 0; i < program_.instructions.size(); ++i) {
      const Program::Instruction& instruction = program_.instructions[i];
      const int result = static_cast<int>(inputs() + i);
      const std::string_view compute = compute_type(instruction.compute_dtype);
      out_ += concat("  const ", type(result), " v", result, " = store_value<", type(result),
                     ">(static_cast<", compute, ">(functors.f", i, ".forward(");
      for (size_t k = 0; k < instruction.operands.size(); ++k)
        out_ +=
            concat(k == 0 ? "" : ", ", "load_value<", compute, ">(v", instruction.operands[k], ")");
      out_ += ")));\n";
    }
    for (size_t i = 0; i < program_.outputs.size(); ++i)
      out_ += concat("  y", i, " = v", program_.outputs[i], ";\n");
    out_ += "}\n\n";
  }

  // Arrays of the walk: outputs, then the inputs that are not constants.
  void write_kernel() {
    out_ +=
        concat("constexpr int V = ", layout_.group, ";\n\nextern \"C\" __global__ void ",
               "__launch_bounds__(kThreads)\nfused(const __grid_constant__ FusedParams params, ",
               "const __grid_constant__ Functors functors) {\n",
               "  const unsigned index = blockIdx.x * kThreads + threadIdx.x;\n",
               "  if (index > params.count || (index == params.count && params.tail == 0)) ",
               "return;\n  int at[kMaxFusedArrays];\n", "  params.walk.offsets(index, at);\n");
    write_constants();
    out_ +=
        "  if (index == params.count) {\n    for (unsigned i = 0; i < params.tail; ++i)\n      ";
    write_call("i");
    out_ += "    return;\n  }\n";
    write_loads();
    for (size_t i = 0; i < program_.outputs.size(); ++i)
      out_ += concat("  Pack<", type(program_.outputs[i]), ", V> y", i, ";\n");
    out_ += "#pragma unroll\n  for (int i = 0; i < V; ++i) compute(functors";
    for (size_t i = 0; i < inputs(); ++i)
      out_ += concat(", x", i, layout_.inputs[i] == Input::vector ? ".items[i]" : "");
    for (size_t i = 0; i < program_.outputs.size(); ++i) out_ += concat(", y", i, ".items[i]");
    out_ += ");\n";
    for (size_t i = 0; i < program_.outputs.size(); ++i)
      out_ += concat("  *reinterpret_cast<Pack<", type(program_.outputs[i]), ", V>*>(params.data[",
                     i, "] + at[", i, "]) = y", i, ";\n");
    out_ += "}\n";
  }

  void write_constants() {
    for (size_t i = 0; i < inputs(); ++i)
      if (layout_.inputs[i] == Input::constant)
        out_ +=
            concat("  const ", type(static_cast<int>(i)), " x", i, " = *reinterpret_cast<const ",
                   type(static_cast<int>(i)), "*>(&params.constants[", i, "]);\n");
  }

  void write_loads() {
    for (size_t i = 0; i < inputs(); ++i) {
      if (layout_.inputs[i] == Input::constant) continue;
      const std::string_view element = type(static_cast<int>(i));
      const std::string kind = layout_.inputs[i] == Input::vector ? concat("Pack<", element, ", V>")
                                                                  : std::string(element);
      out_ += concat("  const auto x", i, " = *reinterpret_cast<const ", kind, "*>(params.data[",
                     array_of(i), "] + at[", array_of(i), "]);\n");
    }
  }

  // The elements after the last whole group, one by one.
  void write_call(std::string_view index) {
    out_ += "compute(functors";
    for (size_t i = 0; i < inputs(); ++i) {
      const std::string_view element = type(static_cast<int>(i));
      if (layout_.inputs[i] == Input::constant)
        out_ += concat(", x", i);
      else
        out_ += concat(", reinterpret_cast<const ", element, "*>(params.data[", array_of(i),
                       "] + at[", array_of(i), "])[",
                       layout_.inputs[i] == Input::vector ? index : std::string_view("0"), "]");
    }
    for (size_t i = 0; i < program_.outputs.size(); ++i)
      out_ += concat(", reinterpret_cast<", type(program_.outputs[i]), "*>(params.data[", i,
                     "] + at[", i, "])[", index, "]");
    out_ += ");\n";
  }

  size_t array_of(size_t input) const {
    size_t array = program_.outputs.size();
    for (size_t i = 0; i < input; ++i) array += layout_.inputs[i] != Input::constant;
    return array;
  }

  const Program& program_;
  const FusedLayout& layout_;
  std::string out_;
};

class CudaKernel final : public FusedKernel {
 public:
  explicit CudaKernel(const Program& program) : program_(program) {
    size_t bytes = 0;
    for (const Program::Instruction& instruction : program.instructions) {
      const size_t size = instruction.op->attrs_size;
      functors_.resize(bytes + size);
      std::memcpy(functors_.data() + bytes, instruction.attrs.get(), size);
      bytes = (bytes + size + kFunctorAlignment - 1) / kFunctorAlignment * kFunctorAlignment;
    }
    functors_.resize(bytes);
    for (DType dtype : program.dtypes) group_ = element_size(dtype) == 8 ? 4 : group_;
    name_ = "fused";
  }

  void run(std::span<const View* const> inputs, std::span<const View* const> outputs) override {
    if (program_.sizes.numel() == 0) return;
    SmallVector<const View*, 12> arrays;
    for (const View* output : outputs) arrays.push_back(output);
    for (size_t i = 0; i < inputs.size(); ++i)
      if (!program_.host_inputs[i]) arrays.push_back(inputs[i]);
    HostWalk walk = cuda::make_walk({arrays.data(), arrays.size()});
    const FusedLayout layout = choose_layout(walk, {arrays.data(), arrays.size()});
    cuda::FusedParams params{};
    for (size_t i = 0; i < inputs.size(); ++i)
      if (program_.host_inputs[i])
        std::memcpy(&params.constants[i], inputs[i]->data, element_size(inputs[i]->dtype));
    const int64_t tail = layout.group > 1 ? walk.sizes[0] % layout.group : 0;
    if (layout.group > 1) cuda::group_inner(walk, layout.group);
    cudaKernel_t kernel = kernel_for(layout);
    cuda::each_part(walk, [&](const HostWalk& part, bool is_last) {
      cuda::fill_walk(params.walk, part);
      for (int k = 0; k < part.arrays; ++k) params.data[k] = part.data[k];
      params.count = static_cast<unsigned>(part.count());
      params.tail = is_last ? static_cast<unsigned>(tail) : 0;
      const unsigned threads = params.count + (params.tail != 0);
      void* args[] = {&params, functors_.data()};
      cuda::Launch{name_, program_.device.index}.run(
          reinterpret_cast<const void*>(kernel),
          dim3((threads + cuda::kThreads - 1) / cuda::kThreads), dim3(cuda::kThreads), args);
    });
  }

 private:
  using HostWalk = cuda::HostWalk;

  FusedLayout choose_layout(const HostWalk& walk, std::span<const View* const> arrays) const {
    const auto bytes = [&](int k) {
      return static_cast<int64_t>(element_size(arrays[static_cast<size_t>(k)]->dtype));
    };
    bool vector = walk.dims == 1 || walk.sizes[0] % group_ == 0;
    const int outputs = static_cast<int>(program_.outputs.size());
    for (int k = 0; k < walk.arrays && vector; ++k)
      vector =
          cuda::has_groups(walk, k, bytes(k), group_) || (k >= outputs && walk.strides[k][0] == 0);
    FusedLayout layout;
    layout.group = vector ? group_ : 1;
    int k = outputs;
    for (bool host : program_.host_inputs) {
      if (host)
        layout.inputs.push_back(Input::constant);
      else if (!vector)
        layout.inputs.push_back(Input::element), ++k;
      else
        layout.inputs.push_back(walk.strides[k++][0] == 0 ? Input::repeat : Input::vector);
    }
    return layout;
  }

  cudaKernel_t kernel_for(const FusedLayout& layout) {
    std::lock_guard lock(mutex_);
    const auto found = kernels_.find(layout);
    if (found != kernels_.end()) return found->second;
    const int device = program_.device.index;
    const cuda::DeviceInfo& info = cuda::device_info(device);
    const std::string code =
        cuda_machine_code(cuda_source(program_, layout), concat("sm_", info.major, info.minor));
    cuda::use_device(device);
    cudaLibrary_t library = nullptr;
    cuda::check_cuda(
        cudaLibraryLoadData(&library, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0),
        "loading a fused kernel");
    cudaKernel_t kernel = nullptr;
    cuda::check_cuda(cudaLibraryGetKernel(&kernel, library, "fused"), "loading a fused kernel");
    kernels_.emplace(layout, kernel);
    return kernel;
  }

  const Program program_;
  std::vector<char> functors_;
  int group_ = 8;
  const char* name_;
  std::mutex mutex_;
  // Loaded code stays for the life of the process, as the library's own kernels do.
  std::map<FusedLayout, cudaKernel_t> kernels_;
};

std::unique_ptr<FusedKernel> emit_cuda(const Program& program) {
  return std::make_unique<CudaKernel>(program);
}

}  // namespace

std::string cuda_source(const Program& program, const FusedLayout& layout) {
  for (const Program::Instruction& instruction : program.instructions)
    check(!functor_type(*instruction.op).empty(), "jit: ", instruction.op->name,
          " has no embedded source");
  return Writer(program, layout).text();
}

std::string cuda_machine_code(const std::string& source, const std::string& architecture) {
  std::vector<cuda::VirtualFile> files;
  for (int i = 0; i < embedded_file_count; ++i)
    files.push_back({embedded_files[i].name, embedded_files[i].text});
  const std::string options[] = {"-std=c++20", "--device-as-default-execution-space",
                                 "--diag-suppress=20012,20013,20014,20015,177"};
  return cuda::compile_cuda(source, files, architecture, options);
}

void register_emit_cuda() { set_emitter(DeviceType::cuda, emit_cuda); }

}  // namespace tensora::jit
