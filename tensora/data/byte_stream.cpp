#include "tensora/data/byte_stream.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "tensora/base/check.h"
#include "tensora/io/unpack_limit.h"

#ifdef TENSORA_HAS_ZLIB
#include <zlib.h>
#endif

namespace tensora::data {
namespace {

// Deflate packs at most 258 bytes into two bits.
constexpr uint64_t kMostUnpacked = 1032;

}  // namespace

#ifdef TENSORA_HAS_ZLIB

struct ByteStream::Unpacker {
  Unpacker() {
    constexpr int gzip_only = 16 + MAX_WBITS;
    check(inflateInit2(&stream, gzip_only) == Z_OK, "zlib could not be started");
  }
  ~Unpacker() { inflateEnd(&stream); }
  Unpacker(const Unpacker&) = delete;
  Unpacker& operator=(const Unpacker&) = delete;

  size_t read(std::span<uint8_t> to, std::span<const uint8_t>& rest) {
    constexpr size_t most = std::numeric_limits<uInt>::max();
    size_t done = 0;
    while (done < to.size() && !ended) {
      const size_t input = std::min(rest.size(), most), output = std::min(to.size() - done, most);
      stream.next_in = const_cast<Bytef*>(rest.data());
      stream.avail_in = static_cast<uInt>(input);
      stream.next_out = to.data() + done;
      stream.avail_out = static_cast<uInt>(output);
      const int status = inflate(&stream, Z_NO_FLUSH);
      rest = rest.subspan(input - stream.avail_in);
      done += output - stream.avail_out;
      check(status != Z_BUF_ERROR || !rest.empty(), "the gzip data are cut off");
      check(status == Z_OK || status == Z_STREAM_END || status == Z_BUF_ERROR,
            "the gzip data are broken: ", stream.msg ? stream.msg : "wrong format");
      if (status != Z_STREAM_END) continue;
      // A file may hold several packed parts, one after the other.
      ended = rest.size() < 2 || rest[0] != 0x1f || rest[1] != 0x8b;
      if (!ended) inflateReset(&stream);
    }
    return done;
  }

  z_stream stream{};
  bool ended = false;
};

#else

struct ByteStream::Unpacker {
  Unpacker() { fail("it is packed by gzip, but Tensora was built without zlib"); }
  size_t read(std::span<uint8_t>, std::span<const uint8_t>&) { return 0; }
};

#endif

ByteStream::ByteStream(std::span<const uint8_t> file) : rest_(file), most_bytes_(file.size()) {
  if (file.size() < 2 || file[0] != 0x1f || file[1] != 0x8b) return;
  most_bytes_ = std::min(file.size() * kMostUnpacked, io::unpack_limit(file.size()));
  unpacker_ = std::make_unique<Unpacker>();
}

ByteStream::~ByteStream() = default;

uint64_t ByteStream::most_bytes() const { return most_bytes_; }

size_t ByteStream::read(std::span<uint8_t> to) {
  if (unpacker_) return unpacker_->read(to, rest_);
  const size_t count = std::min(to.size(), rest_.size());
  if (count > 0) std::memcpy(to.data(), rest_.data(), count);
  rest_ = rest_.subspan(count);
  return count;
}

}  // namespace tensora::data
