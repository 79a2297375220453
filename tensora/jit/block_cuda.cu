#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>

#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/jit/block_text.h"
#include "tensora/jit/cuda_code.h"
#include "tensora/jit/cuda_kernel.h"

namespace tensora::jit {
namespace {

/// A copy of a kernel's name that stays: the last launches are remembered by their names.
const char* kept(const std::string& name) {
  static std::mutex mutex;
  static auto& names = *new std::set<std::string>;
  const std::lock_guard lock(mutex);
  return names.insert(name).first->c_str();
}

/// Printed programs of this process, by their keys.
class BlockTexts {
 public:
  std::shared_ptr<const BlockText> find(const BlockProgram& program) {
    const std::string key = block_key(program);
    {
      const std::lock_guard lock(mutex_);
      const auto found = texts_.find(key);
      if (found != texts_.end()) return found->second;
    }
    auto text = std::make_shared<const BlockText>(print_block(program));
    const std::lock_guard lock(mutex_);
    return texts_.emplace(key, std::move(text)).first->second;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const BlockText>> texts_;
};

void launch_on_cuda(const BlockProgram& program, std::span<const View> arrays, Device device) {
  static auto& texts = *new BlockTexts;
  int64_t blocks = 1;
  for (int count : program.grid) blocks *= evaluate(program, count, arrays, {}, {});
  if (blocks == 0) return;
  check(blocks <= INT32_MAX, "kernel ", program.name, ": ", blocks,
        " programs; a GPU runs up to 2^31 - 1");
  const std::shared_ptr<const BlockText> text = texts.find(program);
  const LoadedKernel loaded = load_kernel(text->text, device.index);
  std::vector<char> parameter(text->bytes);
  const std::vector<uint64_t> words = block_words(program, arrays);
  std::memcpy(parameter.data(), words.data(), words.size() * sizeof(uint64_t));
  for (size_t i = 0; i < program.steps.size(); ++i)
    if (program.steps[i].kind == BlockStep::Kind::pointwise)
      std::memcpy(parameter.data() + text->functor_at[i], program.steps[i].attrs.get(),
                  program.steps[i].op->attrs_size);
  void* args[] = {parameter.data()};
  cuda::Launch{kept(program.name), device.index}.run(
      loaded.kernel, dim3(static_cast<unsigned>(blocks)),
      dim3(static_cast<unsigned>(text->threads)), args);
}

void launch_users(const std::string& source, const std::string& name, const CudaGrid& grid,
                  std::span<void* const> args, Device device) {
  const LoadedKernel loaded = [&] {
    try {
      return load_kernel(source, device.index, name);
    } catch (const Error& error) {
      fail("cuda_kernel ", name, ": ", error.what());
    }
  }();
  const auto dims = [](const CudaExtent& of) { return dim3(of.x, of.y, of.z); };
  std::vector<void*> addresses(args.begin(), args.end());
  cuda::Launch{kept(name), device.index, grid.shared_bytes}.run(
      loaded.kernel, dims(grid.blocks), dims(grid.threads), addresses.data());
}

}  // namespace

void register_block_cuda() {
  set_block_launcher(DeviceType::cuda, launch_on_cuda);
  set_cuda_launcher(launch_users);
}

}  // namespace tensora::jit
