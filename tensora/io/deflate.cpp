#include "tensora/io/deflate.h"

#ifdef TENSORA_HAS_ZLIB

#include <zlib.h>

#include <algorithm>

namespace tensora::io {
namespace {

constexpr int kRawStream = -15;  // no header of zlib's own, a window of 32 KiB
constexpr size_t kMostAtOnce = size_t{1} << 30;

// zlib's counters have 32 bits: hands out input and room in pieces, and runs `step` until it says
// that the stream has ended or that it cannot go on.
template <class Step>
void pump(z_stream& stream, ConstBytes input, std::vector<uint8_t>& output, uint64_t most,
          const Step& step) {
  size_t used = 0;
  for (int code = Z_OK; code != Z_STREAM_END;) {
    if (stream.avail_in == 0) {
      const size_t count = std::min(input.size(), kMostAtOnce);
      stream.next_in = const_cast<Bytef*>(input.data());
      stream.avail_in = static_cast<uInt>(count);
      input = input.subspan(count);
    }
    if (used == output.size()) {
      check(used < most, "a compressed entry holds more than it says");
      output.resize(std::min<uint64_t>(most, std::max<uint64_t>(1 << 16, 2 * used)));
    }
    const size_t room = std::min(output.size() - used, kMostAtOnce);
    stream.next_out = output.data() + used;
    stream.avail_out = static_cast<uInt>(room);
    code = step(stream, input.empty());
    used += room - stream.avail_out;
    const bool stuck = code == Z_BUF_ERROR && stream.avail_in == 0 && input.empty();
    check((code == Z_OK || code == Z_BUF_ERROR || code == Z_STREAM_END) && !stuck,
          "a compressed entry is damaged");
  }
  output.resize(used);
}

}  // namespace

std::vector<uint8_t> inflate(ConstBytes packed, uint64_t size) {
  std::vector<uint8_t> output;
  z_stream stream{};
  check(inflateInit2(&stream, kRawStream) == Z_OK, "zlib cannot start");
  struct End {
    z_stream& stream;
    ~End() { inflateEnd(&stream); }
  } end{stream};
  // One byte more than expected, so that a stream of exactly this size can end.
  pump(stream, packed, output, size + 1,
       [](z_stream& s, bool) { return ::inflate(&s, Z_NO_FLUSH); });
  check(output.size() == size, "a compressed entry holds ", output.size(), " bytes, not the ", size,
        " that it says");
  return output;
}

std::vector<uint8_t> deflate(ConstBytes bytes) {
  std::vector<uint8_t> output;
  z_stream stream{};
  check(deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kRawStream, 8,
                     Z_DEFAULT_STRATEGY) == Z_OK,
        "zlib cannot start");
  struct End {
    z_stream& stream;
    ~End() { deflateEnd(&stream); }
  } end{stream};
  pump(stream, bytes, output, UINT64_MAX,
       [](z_stream& s, bool last) { return ::deflate(&s, last ? Z_FINISH : Z_NO_FLUSH); });
  return output;
}

}  // namespace tensora::io

#else

namespace tensora::io {

std::vector<uint8_t> inflate(ConstBytes, uint64_t) {
  fail("an entry is compressed, and this build of Tensora has no zlib");
}
std::vector<uint8_t> deflate(ConstBytes) { fail("this build of Tensora has no zlib"); }

}  // namespace tensora::io

#endif
