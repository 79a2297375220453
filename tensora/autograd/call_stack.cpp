#include "tensora/autograd/call_stack.h"

#include <cxxabi.h>
#include <execinfo.h>
#include <link.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>

#include "tensora/base/check.h"

// Note [Names of functions]
// The dynamic linker knows only exported functions, and neither those of an ordinary program nor
// static ones. The full symbol table is in the file itself unless it was stripped, so it is read
// from there, but only when a trace is printed.

namespace tensora {
namespace {

struct Function {
  uintptr_t begin, end;
  std::string name;
};

template <class T>
std::vector<T> read_array(std::ifstream& file, size_t offset, size_t count) {
  std::vector<T> result(count);
  file.seekg(static_cast<std::streamoff>(offset));
  file.read(reinterpret_cast<char*>(result.data()),
            static_cast<std::streamsize>(count * sizeof(T)));
  if (!file) result.clear();
  return result;
}

// The functions of one file, by address; empty where it cannot be read.
std::vector<Function> functions_of(const std::string& path) {
  std::vector<Function> result;
  std::ifstream file(path, std::ios::binary);
  const auto header = read_array<ElfW(Ehdr)>(file, 0, 1);
  if (header.empty() || std::memcmp(header[0].e_ident, ELFMAG, SELFMAG) != 0) return result;
  const auto sections = read_array<ElfW(Shdr)>(file, header[0].e_shoff, header[0].e_shnum);
  // The full table if it is there, otherwise that of the exported functions.
  const ElfW(Shdr)* table = nullptr;
  for (const auto& section : sections)
    if (section.sh_type == SHT_SYMTAB || (section.sh_type == SHT_DYNSYM && !table))
      table = &section;
  if (!table || table->sh_link >= sections.size()) return result;
  const ElfW(Shdr)& texts = sections[table->sh_link];
  std::vector<char> names = read_array<char>(file, texts.sh_offset, texts.sh_size);
  if (names.empty()) return result;
  names.back() = '\0';
  for (const auto& symbol :
       read_array<ElfW(Sym)>(file, table->sh_offset, table->sh_size / sizeof(ElfW(Sym)))) {
    if ((symbol.st_info & 0xf) != STT_FUNC || symbol.st_shndx == SHN_UNDEF) continue;
    if (symbol.st_name >= names.size()) continue;
    result.push_back({symbol.st_value, symbol.st_value + std::max<size_t>(symbol.st_size, 1),
                      names.data() + symbol.st_name});
  }
  std::sort(result.begin(), result.end(),
            [](const Function& a, const Function& b) { return a.begin < b.begin; });
  return result;
}

std::string demangled(const std::string& name) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), std::free);
  return status == 0 ? text.get() : name;
}

// The file that an address of this process lies in, and its address there.
struct Place {
  uintptr_t address;
  std::string file = {};
};

Place place_of(uintptr_t address) {
  Place place{address};
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* wanted) {
        Place& found = *static_cast<Place*>(wanted);
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const ElfW(Phdr)& part = info->dlpi_phdr[i];
          const uintptr_t begin = info->dlpi_addr + part.p_vaddr;
          if (part.p_type != PT_LOAD || found.address < begin ||
              found.address >= begin + part.p_memsz)
            continue;
          found.address -= info->dlpi_addr;
          found.file = info->dlpi_name && *info->dlpi_name ? info->dlpi_name : "/proc/self/exe";
          return 1;
        }
        return 0;
      },
      &place);
  return place;
}

std::string in_hex(uintptr_t number) {
  std::string digits;
  do digits.insert(digits.begin(), "0123456789abcdef"[number & 15]);
  while (number >>= 4);
  return "0x" + digits;
}

}  // namespace

CallStack CallStack::here() {
  CallStack result;
  result.addresses_.resize(64);
  const int count = backtrace(result.addresses_.data(), 64);
  result.addresses_.resize(static_cast<size_t>(count));
  if (count > 0) result.addresses_.erase(result.addresses_.begin());  // this function
  return result;
}

namespace {

/// Finds the names of functions, and reads each file's symbols once.
class FunctionNames {
 public:
  /// Empty if it is not known.
  std::string find(const Place& place) {
    const auto [entry, fresh] = files_.try_emplace(place.file);
    if (fresh) entry->second = functions_of(place.file);
    const std::vector<Function>& functions = entry->second;
    const auto next =
        std::upper_bound(functions.begin(), functions.end(), place.address,
                         [](uintptr_t at, const Function& one) { return at < one.begin; });
    const bool known = next != functions.begin() && place.address < std::prev(next)->end;
    return known ? demangled(std::prev(next)->name) : std::string();
  }

 private:
  std::map<std::string, std::vector<Function>> files_;
};

// A return address follows the call, which may be the last instruction of its function.
Place place_of_call(void* address) { return place_of(reinterpret_cast<uintptr_t>(address) - 1); }

}  // namespace

std::string CallStack::to_string() const {
  FunctionNames names;
  std::string result;
  for (void* address : addresses_) {
    const Place place = place_of_call(address);
    const std::string name = names.find(place);
    result +=
        concat("  ", name.empty() ? concat(place.file, "+", in_hex(place.address)) : name, "\n");
  }
  return result;
}

std::string CallStack::caller() const {
  const std::string library = place_of(reinterpret_cast<uintptr_t>(&place_of_call)).file;
  FunctionNames names;
  for (void* address : addresses_) {
    const Place place = place_of_call(address);
    if (place.file == library) continue;
    std::string name = names.find(place);
    // Templates of the library that were compiled into the program are not what the user wrote.
    if (name.empty() || name.find("tensora::Tensor::") == std::string::npos) return name;
  }
  return {};
}

}  // namespace tensora
