#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tensora/base/check.h"
#include "tensora/data/image_codec.h"
#include "tensora/io/unpack_limit.h"

#ifdef TENSORA_HAS_JPEG
#include <jerror.h>
#include <jpeglib.h>
#endif

namespace tensora::data {

bool is_jpeg(std::span<const uint8_t> bytes) {
  return bytes.size() >= 3 && bytes[0] == 0xff && bytes[1] == 0xd8 && bytes[2] == 0xff;
}

#ifdef TENSORA_HAS_JPEG

// See Note [Errors of C libraries] in image_png.cpp.

namespace {

struct JpegErrors {
  jpeg_error_mgr manager;  // first: libjpeg passes its address
  std::jmp_buf back;
  char message[JMSG_LENGTH_MAX] = "";
};

[[noreturn]] void keep_error(j_common_ptr codec) {
  auto* const errors = reinterpret_cast<JpegErrors*>(codec->err);
  errors->manager.format_message(codec, errors->message);
  std::longjmp(errors->back, 1);
}

// libjpeg goes on after missing data, with gray pixels, and calls that a warning. Such an image
// must not enter a training set unnoticed; what else it warns of does no harm.
void refuse_missing_data(j_common_ptr codec, int level) {
  const int code = codec->err->msg_code;
  if (level < 0 && (code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE))
    keep_error(codec);
}

void install(JpegErrors& errors) {
  jpeg_std_error(&errors.manager);
  errors.manager.error_exit = keep_error;
  errors.manager.emit_message = refuse_missing_data;
}

struct JpegReader {
  JpegErrors errors;
  jpeg_decompress_struct codec{};

  JpegReader() {
    install(errors);
    codec.err = &errors.manager;
  }
  ~JpegReader() { jpeg_destroy_decompress(&codec); }
};

struct JpegWriter {
  JpegErrors errors;
  jpeg_compress_struct codec{};
  unsigned char* bytes = nullptr;  // libjpeg's, from malloc
  unsigned long size = 0;

  JpegWriter() {
    install(errors);
    codec.err = &errors.manager;
  }
  ~JpegWriter() {
    jpeg_destroy_compress(&codec);
    std::free(bytes);
  }
};

bool read_header(JpegReader& reader, std::span<const uint8_t> bytes, bool gray) {
  if (setjmp(reader.errors.back)) return false;
  jpeg_create_decompress(&reader.codec);
  jpeg_mem_src(&reader.codec, bytes.data(), static_cast<unsigned long>(bytes.size()));
  jpeg_read_header(&reader.codec, TRUE);
  const J_COLOR_SPACE space = reader.codec.jpeg_color_space;
  const bool inks = space == JCS_CMYK || space == JCS_YCCK;
  const bool one = space == JCS_GRAYSCALE || (gray && space == JCS_YCbCr);
  reader.codec.out_color_space = inks ? JCS_CMYK : one ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_calc_output_dimensions(&reader.codec);
  return true;
}

bool read_rows(JpegReader& reader, Pixels& pixels) {
  if (setjmp(reader.errors.back)) return false;
  jpeg_start_decompress(&reader.codec);
  while (reader.codec.output_scanline < reader.codec.output_height) {
    JSAMPROW row = pixels.row(reader.codec.output_scanline);
    jpeg_read_scanlines(&reader.codec, &row, 1);
  }
  jpeg_finish_decompress(&reader.codec);
  return true;
}

// Adobe's programs, which write such files, store the inks inverted.
void inks_to_rgb(Pixels& pixels, bool inverted) {
  Pixels rgb;
  rgb.resize(pixels.height, pixels.width, 3);
  const size_t count = static_cast<size_t>(pixels.height * pixels.width);
  for (size_t i = 0; i < count; ++i) {
    const uint8_t* const from = pixels.bytes.data() + 4 * i;
    const int black = inverted ? from[3] : 255 - from[3];
    for (size_t c = 0; c < 3; ++c) {
      const int light = inverted ? from[c] : 255 - from[c];
      rgb.bytes[3 * i + c] = static_cast<uint8_t>(light * black / 255);
    }
  }
  pixels = std::move(rgb);
}

bool write_all(JpegWriter& writer, const Pixels& pixels, int quality) {
  if (setjmp(writer.errors.back)) return false;
  jpeg_compress_struct& codec = writer.codec;
  jpeg_create_compress(&codec);
  jpeg_mem_dest(&codec, &writer.bytes, &writer.size);
  codec.image_width = static_cast<JDIMENSION>(pixels.width);
  codec.image_height = static_cast<JDIMENSION>(pixels.height);
  codec.input_components = static_cast<int>(pixels.channels);
  codec.in_color_space = pixels.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(&codec);
  jpeg_set_quality(&codec, quality, TRUE);
  jpeg_start_compress(&codec, TRUE);
  while (codec.next_scanline < codec.image_height) {
    JSAMPROW row = const_cast<JSAMPROW>(pixels.row(codec.next_scanline));
    jpeg_write_scanlines(&codec, &row, 1);
  }
  jpeg_finish_compress(&codec);
  return true;
}

}  // namespace

Pixels decode_jpeg(std::span<const uint8_t> bytes, bool gray) {
  JpegReader reader;
  check(read_header(reader, bytes, gray), "it is a broken JPEG image: ", reader.errors.message);
  io::check_unpacked(concat("the image of ", reader.codec.output_width, " x ",
                            reader.codec.output_height, " pixels"),
                     uint64_t{reader.codec.output_height} * reader.codec.output_width *
                         static_cast<uint64_t>(reader.codec.output_components),
                     bytes.size());
  Pixels pixels;
  pixels.resize(reader.codec.output_height, reader.codec.output_width,
                reader.codec.output_components);
  check(read_rows(reader, pixels), "it is a broken JPEG image: ", reader.errors.message);
  if (pixels.channels == 4) inks_to_rgb(pixels, reader.codec.saw_Adobe_marker);
  return pixels;
}

std::vector<uint8_t> encode_jpeg_pixels(const Pixels& pixels, int quality) {
  JpegWriter writer;
  check(write_all(writer, pixels, quality), "encode_jpeg: ", writer.errors.message);
  return {writer.bytes, writer.bytes + writer.size};
}

#else

Pixels decode_jpeg(std::span<const uint8_t>, bool) {
  fail("it is a JPEG image, but Tensora was built without libjpeg");
}
std::vector<uint8_t> encode_jpeg_pixels(const Pixels&, int) {
  fail("encode_jpeg: Tensora was built without libjpeg");
}

#endif

}  // namespace tensora::data
