#include "tensora/backend/cuda/runtime/nvrtc.h"

#include <nvrtc.h>

#include <vector>

#include "tensora/backend/cuda/runtime/dynamic_library.h"

namespace tensora::cuda {
namespace {

struct Nvrtc {
  decltype(nvrtcCreateProgram)* create;
  decltype(nvrtcDestroyProgram)* destroy;
  decltype(nvrtcCompileProgram)* compile;
  decltype(nvrtcGetCUBINSize)* code_size;
  decltype(nvrtcGetCUBIN)* code;
  decltype(nvrtcGetProgramLogSize)* log_size;
  decltype(nvrtcGetProgramLog)* log;
  decltype(nvrtcVersion)* version;

  Nvrtc() {
    const DynamicLibrary library({"libnvrtc.so.13", "libnvrtc.so"}, "the fusion of ops");
    library.load(create, "nvrtcCreateProgram");
    library.load(destroy, "nvrtcDestroyProgram");
    library.load(compile, "nvrtcCompileProgram");
    library.load(code_size, "nvrtcGetCUBINSize");
    library.load(code, "nvrtcGetCUBIN");
    library.load(log_size, "nvrtcGetProgramLogSize");
    library.load(log, "nvrtcGetProgramLog");
    library.load(version, "nvrtcVersion");
  }
};

const Nvrtc& nvrtc() {
  static const Nvrtc functions;
  return functions;
}

class RuntimeProgram {
 public:
  RuntimeProgram(const std::string& source, std::span<const VirtualFile> files) {
    std::vector<const char*> names, texts;
    for (const VirtualFile& file : files) {
      names.push_back(file.name);
      texts.push_back(file.text);
    }
    check(nvrtc().create(&program_, source.c_str(), "fused.cu", static_cast<int>(files.size()),
                         texts.data(), names.data()) == NVRTC_SUCCESS,
          "cuda: nvrtcCreateProgram failed");
  }
  ~RuntimeProgram() { nvrtc().destroy(&program_); }
  RuntimeProgram(const RuntimeProgram&) = delete;
  RuntimeProgram& operator=(const RuntimeProgram&) = delete;

  nvrtcProgram get() const { return program_; }
  std::string log() const {
    size_t size = 0;
    nvrtc().log_size(program_, &size);
    std::string text(size, ' ');
    if (size > 0) nvrtc().log(program_, text.data());
    return text;
  }

 private:
  nvrtcProgram program_ = nullptr;
};

}  // namespace

std::string compile_cuda(const std::string& source, std::span<const VirtualFile> files,
                         const std::string& architecture, std::span<const std::string> options) {
  const RuntimeProgram program(source, files);
  const std::string target = "--gpu-architecture=" + architecture;
  std::vector<const char*> all = {target.c_str()};
  for (const std::string& option : options) all.push_back(option.c_str());
  const nvrtcResult result =
      nvrtc().compile(program.get(), static_cast<int>(all.size()), all.data());
  check(result == NVRTC_SUCCESS, "cuda: a generated kernel does not compile:\n", program.log());
  size_t size = 0;
  nvrtc().code_size(program.get(), &size);
  std::string code(size, '\0');
  check(nvrtc().code(program.get(), code.data()) == NVRTC_SUCCESS && size > 0,
        "cuda: NVRTC made no machine code for ", architecture);
  return code;
}

std::string nvrtc_version() {
  int major = 0, minor = 0;
  check(nvrtc().version(&major, &minor) == NVRTC_SUCCESS, "cuda: nvrtcVersion failed");
  return concat(major, ".", minor);
}

}  // namespace tensora::cuda
