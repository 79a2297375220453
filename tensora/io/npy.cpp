#include "tensora/io/npy.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <system_error>

#include "tensora/io/atomic_file.h"
#include "tensora/io/mapped_file.h"
#include "tensora/io/zip_reader.h"
#include "tensora/io/zip_writer.h"

namespace tensora::io {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kMostHeaderBytes = 1 << 16;

constexpr std::pair<DType, std::string_view> kNames[] = {
    {kBool, "b1"},    {kUInt8, "u1"},   {kInt8, "i1"},      {kInt16, "i2"},       {kUInt16, "u2"},
    {kUInt32, "u4"},  {kUInt64, "u8"},  {kInt32, "i4"},     {kInt64, "i8"},       {kFloat16, "f2"},
    {kFloat32, "f4"}, {kFloat64, "f8"}, {kComplex64, "c8"}, {kComplex128, "c16"},
};

struct Header {
  DType dtype = kFloat32;
  bool big_endian = false;
  bool fortran_order = false;
  Shape sizes;
};

// The header is a Python dict of a fixed form: {'descr': '<f4', 'fortran_order': False, 'shape':
// (2, 3), }. Reads exactly that, with the keys in any order.
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : text_(text) {}

  Header parse() {
    expect('{');
    while (!accept('}')) {
      const std::string_view key = quoted();
      expect(':');
      if (key == "descr" && !descr_)
        read_descr();
      else if (key == "fortran_order" && !order_)
        order_ = boolean();
      else if (key == "shape" && !shape_)
        shape_ = shape();
      else
        fail("the header has an unexpected entry '", key, "'");
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    check(descr_ && order_ && shape_, "the header needs 'descr', 'fortran_order' and 'shape'");
    skip_space();
    check(text_.empty(), "the header is followed by something");
    return {*descr_, big_endian_, *order_, *shape_};
  }

 private:
  void skip_space() {
    text_.remove_prefix(std::min(text_.find_first_not_of(" \t\n"), text_.size()));
  }
  bool accept(char letter) {
    skip_space();
    const bool found = text_.starts_with(letter);
    if (found) text_.remove_prefix(1);
    return found;
  }
  void expect(char letter) { check(accept(letter), "the header is damaged: no '", letter, "'"); }
  bool accept_word(std::string_view word) {
    skip_space();
    const bool found = text_.starts_with(word);
    if (found) text_.remove_prefix(word.size());
    return found;
  }

  std::string_view quoted() {
    skip_space();
    check(!text_.empty() && (text_[0] == '\'' || text_[0] == '"'),
          "the header is damaged, or the array is one of records");
    const size_t end = text_.find(text_[0], 1);
    check(end != text_.npos, "the header is damaged: a text does not end");
    const std::string_view result = text_.substr(1, end - 1);
    text_.remove_prefix(end + 1);
    return result;
  }
  bool boolean() {
    if (accept_word("True")) return true;
    check(accept_word("False"), "the header is damaged: 'fortran_order' is not True or False");
    return false;
  }
  Shape shape() {
    Shape sizes;
    expect('(');
    while (!accept(')')) {
      int64_t size = -1;
      skip_space();
      const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), size);
      check(error == std::errc() && size >= 0, "the header is damaged: a size is not a number");
      text_.remove_prefix(static_cast<size_t>(end - text_.data()));
      accept_word("L");  // Python 2 wrote long integers so
      sizes.push_back(size);
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return sizes;
  }
  void read_descr() {
    const std::string_view text = quoted();
    check(!text.ends_with("O") && text.find('O') == text.npos,
          "the array holds Python objects, which are not loaded");
    const char order = text.empty() ? ' ' : text[0];
    for (const auto& [dtype, name] : kNames)
      if (text.substr(std::min<size_t>(1, text.size())) == name &&
          std::string_view("<>|=").find(order) != std::string_view::npos)
        descr_ = dtype;
    check(descr_.has_value(), "arrays of type '", text, "' are not supported");
    big_endian_ = order == '>';
  }

  std::string_view text_;
  std::optional<DType> descr_;
  std::optional<bool> order_;
  std::optional<Shape> shape_;
  bool big_endian_ = false;
};

void swap_bytes(Bytes bytes, size_t width) {
  for (size_t i = 0; i + width <= bytes.size(); i += width)
    std::reverse(&bytes[i], &bytes[i] + width);
}

Tensor parse_npy(const OwnedBytes& file) {
  ByteReader reader(file.bytes);
  check(reader.left() >= kMagic.size() && reader.text(kMagic.size()) == kMagic,
        "it is not a NumPy array");
  const int major = reader.read<uint8_t>();
  reader.read<uint8_t>();
  check(major >= 1 && major <= 3, "version ", major, " of NumPy's format is not known");
  const size_t header_bytes = major == 1 ? reader.read<uint16_t>() : reader.read<uint32_t>();
  check(header_bytes <= kMostHeaderBytes, "the header would have ", header_bytes, " bytes");
  const std::string text = reader.text(header_bytes);
  const Header header = HeaderParser(text).parse();
  const uint64_t needed = dense_bytes(header.sizes, header.dtype);
  check(needed == reader.left(), "an array of shape ", header.sizes, " and dtype ", header.dtype,
        " has ", needed, " bytes, but there are ", reader.left());
  const Bytes data = file.bytes.subspan(reader.position());
  if (header.big_endian) swap_bytes(data, element_size(real_dtype(header.dtype)));
  Strides strides = contiguous_strides(header.sizes);
  if (header.fortran_order) {
    Shape reversed = header.sizes;
    std::reverse(reversed.begin(), reversed.end());
    strides = contiguous_strides(reversed);
    std::reverse(strides.begin(), strides.end());
  }
  return tensor_over(data, header.sizes, strides, header.dtype, file.owner);
}

// The text in front of the numbers; they begin at a multiple of 64 bytes.
std::string print_header(const Tensor& tensor, std::string_view name) {
  std::string_view descr;
  for (const auto& [dtype, text] : kNames)
    if (dtype == tensor.dtype()) descr = text;
  check(!descr.empty(), "'", name, "' is a ", tensor.dtype(),
        " tensor, which NumPy's format cannot hold; safetensors can");
  std::string text = concat("{'descr': '", element_size(tensor.dtype()) == 1 ? "|" : "<", descr,
                            "', 'fortran_order': False, 'shape': (");
  for (int64_t size : tensor.sizes()) text += concat(size, ", ");
  if (tensor.dim() > 1) text.resize(text.size() - 2);
  text += "), }";
  const size_t before = kMagic.size() + 4;  // and version and length
  text.append(64 - (before + text.size() + 1) % 64, ' ');
  text += '\n';
  std::string out(kMagic);
  out += {'\1', '\0'};
  append_number(out, static_cast<uint16_t>(text.size()));
  return out + text;
}

}  // namespace

Tensor load_npy(const std::string& path) {
  return reading("load_npy", path, [&] {
    const std::shared_ptr<MappedFile> file = MappedFile::open(path);
    return parse_npy({file->bytes(), file});
  });
}

void save_npy(const Tensor& tensor, const std::string& path) {
  called_as("save_npy", [&] {
    const Tensor form = writable_form(tensor, "tensor");
    const std::string header = print_header(form, "tensor");
    AtomicFile file(path);
    file.write(header);
    file.write(contents(form));
    file.commit();
  });
}

StateDict load_npz(const std::string& path) {
  return reading("load_npz", path, [&] {
    const ZipReader archive(MappedFile::open(path));
    StateDict tensors;
    for (const ZipEntry& entry : archive.entries()) {
      std::string name = entry.name;
      check(name.ends_with(".npy"), "the entry '", name, "' is not a NumPy array");
      name.resize(name.size() - 4);
      try {
        tensors.insert(name, parse_npy(archive.read(entry, true)));
      } catch (const OutOfMemoryError&) {
        throw;
      } catch (const Error& error) {
        fail("'", name, "': ", error.what());
      }
    }
    return tensors;
  });
}

void save_npz(const StateDict& tensors, const std::string& path, const NpzOptions& options) {
  called_as("save_npz", [&] {
    AtomicFile file(path);
    ZipWriter archive(file);
    for (const auto& [name, tensor] : tensors) {
      const Tensor form = writable_form(tensor, name);
      std::string header = print_header(form, name);
      const ConstBytes bytes = contents(form);
      if (options.compressed) {
        header.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
        archive.compress(name + ".npy", bytes_of_text(header));
      } else {
        archive.store(name + ".npy", bytes_of_text(header), bytes);
      }
    }
    archive.finish();
    file.commit();
  });
}

}  // namespace tensora::io
