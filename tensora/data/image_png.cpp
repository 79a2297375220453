#include <csetjmp>
#include <cstring>

#include "tensora/base/check.h"
#include "tensora/data/image_codec.h"
#include "tensora/io/unpack_limit.h"

#ifdef TENSORA_HAS_PNG
#include <png.h>
#endif

namespace tensora::data {

bool is_png(std::span<const uint8_t> bytes) {
  constexpr uint8_t signature[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
  return bytes.size() >= sizeof signature &&
         std::memcmp(bytes.data(), signature, sizeof signature) == 0;
}

#ifdef TENSORA_HAS_PNG

// Note [Errors of C libraries]
// libpng and libjpeg report an error through a function that must not return: it keeps the text
// and jumps back. Functions that such a jump may leave hold no objects that need a destructor; the
// structs of the library belong to an object of the caller.

namespace {

struct PngReader {
  std::span<const uint8_t> bytes;
  size_t position = 0;
  char message[kCodecMessage] = "";
  png_structp png = nullptr;
  png_infop info = nullptr;

  ~PngReader() { png_destroy_read_struct(&png, &info, nullptr); }
};

struct PngWriter {
  std::vector<uint8_t> bytes;
  bool out_of_memory = false;
  char message[kCodecMessage] = "";
  png_structp png = nullptr;
  png_infop info = nullptr;

  ~PngWriter() { png_destroy_write_struct(&png, &info); }
};

template <class Owner>
[[noreturn]] void keep_error(png_structp png, png_const_charp text) {
  char* const message = static_cast<Owner*>(png_get_error_ptr(png))->message;
  std::strncpy(message, text, kCodecMessage - 1);
  png_longjmp(png, 1);
}

void ignore_warning(png_structp, png_const_charp) {}

void read_bytes(png_structp png, png_bytep to, size_t count) {
  auto* const reader = static_cast<PngReader*>(png_get_io_ptr(png));
  if (count > reader->bytes.size() - reader->position) png_error(png, "the file is cut off");
  std::memcpy(to, reader->bytes.data() + reader->position, count);
  reader->position += count;
}

// Reads the header and makes libpng give 8-bit gray or RGB pixels, with alpha where the file has
// it.
bool read_header(PngReader& reader) {
  if (setjmp(png_jmpbuf(reader.png))) return false;
  png_set_read_fn(reader.png, &reader, read_bytes);
  // Memory for ancillary chunks, which are not looked at.
  png_set_keep_unknown_chunks(reader.png, PNG_HANDLE_CHUNK_NEVER, nullptr, 0);
  png_read_info(reader.png, reader.info);
  const int type = png_get_color_type(reader.png, reader.info);
  png_set_strip_16(reader.png);
  png_set_packing(reader.png);
  if (type == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(reader.png);
  if (type == PNG_COLOR_TYPE_GRAY) png_set_expand_gray_1_2_4_to_8(reader.png);
  if (png_get_valid(reader.png, reader.info, PNG_INFO_tRNS)) png_set_tRNS_to_alpha(reader.png);
  png_set_interlace_handling(reader.png);
  png_read_update_info(reader.png, reader.info);
  return true;
}

bool read_rows(PngReader& reader, uint8_t** rows) {
  if (setjmp(png_jmpbuf(reader.png))) return false;
  png_read_image(reader.png, rows);
  png_read_end(reader.png, nullptr);
  return true;
}

void append_bytes(png_structp png, png_bytep from, size_t count) {
  auto* const writer = static_cast<PngWriter*>(png_get_io_ptr(png));
  try {
    writer->bytes.insert(writer->bytes.end(), from, from + count);
  } catch (const std::bad_alloc&) {
    writer->out_of_memory = true;
  }
  if (writer->out_of_memory) png_error(png, "no memory is left");
}

bool write_all(PngWriter& writer, const Pixels& pixels, uint8_t** rows) {
  constexpr int types[] = {0, PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB,
                           PNG_COLOR_TYPE_RGB_ALPHA};
  if (setjmp(png_jmpbuf(writer.png))) return false;
  png_set_write_fn(writer.png, &writer, append_bytes, nullptr);
  png_set_IHDR(writer.png, writer.info, static_cast<png_uint_32>(pixels.width),
               static_cast<png_uint_32>(pixels.height), 8, types[pixels.channels],
               PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_set_rows(writer.png, writer.info, rows);
  png_write_png(writer.png, writer.info, PNG_TRANSFORM_IDENTITY, nullptr);
  return true;
}

std::vector<uint8_t*> rows_of(const Pixels& pixels) {
  std::vector<uint8_t*> rows;
  for (int64_t y = 0; y < pixels.height; ++y) rows.push_back(const_cast<uint8_t*>(pixels.row(y)));
  return rows;
}

}  // namespace

Pixels decode_png(std::span<const uint8_t> bytes) {
  PngReader reader{.bytes = bytes};
  reader.png =
      png_create_read_struct(PNG_LIBPNG_VER_STRING, &reader, keep_error<PngReader>, ignore_warning);
  reader.info = reader.png ? png_create_info_struct(reader.png) : nullptr;
  check(reader.info, "libpng could not be started");
  check(read_header(reader), "it is a broken PNG image: ", reader.message);
  const png_uint_32 width = png_get_image_width(reader.png, reader.info),
                    height = png_get_image_height(reader.png, reader.info);
  io::check_unpacked(concat("the image of ", width, " x ", height, " pixels"),
                     uint64_t{height} * png_get_rowbytes(reader.png, reader.info), bytes.size());
  Pixels pixels;
  pixels.resize(height, width, png_get_channels(reader.png, reader.info));
  ensure(png_get_rowbytes(reader.png, reader.info) == pixels.row_bytes(), "PNG: rows of ",
         png_get_rowbytes(reader.png, reader.info), " bytes");
  std::vector<uint8_t*> rows = rows_of(pixels);
  check(read_rows(reader, rows.data()), "it is a broken PNG image: ", reader.message);
  return pixels;
}

std::vector<uint8_t> encode_png_pixels(const Pixels& pixels) {
  PngWriter writer;
  writer.png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &writer, keep_error<PngWriter>,
                                       ignore_warning);
  writer.info = writer.png ? png_create_info_struct(writer.png) : nullptr;
  check(writer.info, "libpng could not be started");
  std::vector<uint8_t*> rows = rows_of(pixels);
  check(write_all(writer, pixels, rows.data()), "encode_png: ", writer.message);
  return std::move(writer.bytes);
}

#else

Pixels decode_png(std::span<const uint8_t>) {
  fail("it is a PNG image, but Tensora was built without libpng");
}
std::vector<uint8_t> encode_png_pixels(const Pixels&) {
  fail("encode_png: Tensora was built without libpng");
}

#endif

}  // namespace tensora::data
