#include <cstring>

#include "tensora/base/check.h"
#include "tensora/llm/tokenizer/bpe_model.h"
#include "tensora/llm/tokenizer/pipeline_tokenizer.h"
#include "tensora/llm/tokenizer/tokenizer_sources.h"
#include "tensora/llm/tokenizer/unigram_model.h"

namespace tensora::llm {
namespace {

// A field of a protobuf message: a number, or bytes.
struct Field {
  uint32_t number = 0;
  uint64_t value = 0;           // of a varint, or the bits of a fixed number
  std::string_view bytes = {};  // of a message, a text
  enum class Kind : uint8_t { number, bytes } kind = Kind::number;

  bool is_number() const { return kind == Kind::number; }
  bool flag() const { return value != 0; }
  float real() const {
    const auto bits = static_cast<uint32_t>(value);
    float out;
    std::memcpy(&out, &bits, 4);
    return out;
  }
};

/// Walks over the fields of a protobuf message that may be anything.
class MessageReader {
 public:
  explicit MessageReader(std::string_view bytes) : rest_(bytes) {}

  bool next(Field& field) {
    if (rest_.empty()) return false;
    const uint64_t tag = varint();
    check(tag >> 3 >= 1 && tag >> 3 < (1u << 29), "a bad field number ", tag >> 3);
    field = {.number = static_cast<uint32_t>(tag >> 3)};
    switch (tag & 7) {
      case 0:
        field.value = varint();
        break;
      case 1:
        field.value = fixed(8);
        break;
      case 5:
        field.value = fixed(4);
        break;
      case 2:
        field.kind = Field::Kind::bytes;
        field.bytes = take(varint());
        break;
      default:
        fail("the wire type ", tag & 7, " is not supported");
    }
    return true;
  }

 private:
  std::string_view take(uint64_t count) {
    check(count <= rest_.size(), "the message ends too early: ", count, " bytes are expected, ",
          rest_.size(), " are left");
    const std::string_view out = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return out;
  }
  uint64_t fixed(size_t count) {
    uint64_t out = 0;
    std::memcpy(&out, take(count).data(), count);
    return out;
  }
  uint64_t varint() {
    uint64_t out = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<uint8_t>(take(1)[0]);
      out |= uint64_t(byte & 0x7F) << shift;
      if (byte < 0x80) return out;
    }
    fail("a number has more than ten bytes");
  }

  std::string_view rest_;
};

struct ModelProto {
  const std::shared_ptr<Vocabulary> vocabulary = std::make_shared<Vocabulary>();
  // Of the trainer's settings, with their defaults.
  uint64_t model_type = 1;  // 1 Unigram, 2 BPE
  bool byte_fallback = false, space_suffix = false;
  int64_t unknown = 0, bos = 1, eos = 2;
  // Of the normalizer's.
  std::string_view character_map;
  bool add_prefix = true, remove_extra = true, escape = true;

  explicit ModelProto(std::string_view bytes) {
    MessageReader reader(bytes);
    for (Field field; reader.next(field);) {
      if (field.is_number()) continue;
      if (field.number == 1) read_piece(field.bytes);
      if (field.number == 2) read_trainer(field.bytes);
      if (field.number == 3) read_normalizer(field.bytes);
    }
    check(vocabulary->size() > 0, "there are no pieces");
  }

  void read_piece(std::string_view bytes) {
    std::string text;
    float score = 0;
    uint64_t kind = 1;
    MessageReader reader(bytes);
    for (Field field; reader.next(field);) {
      if (field.number == 1 && !field.is_number()) text = field.bytes;
      if (field.number == 2 && field.is_number()) score = field.real();
      if (field.number == 3 && field.is_number()) kind = field.value;
    }
    check(kind >= 1 && kind <= 6, "the piece ", vocabulary->size(), " has the unknown type ", kind);
    const Token token = vocabulary->add(text, static_cast<TokenKind>(kind), double(score));
    if (static_cast<TokenKind>(kind) != TokenKind::byte) return;
    const int byte = byte_of_name(text);
    check(byte >= 0, "the byte piece ", token, " must be <0x00> to <0xFF>, got '", text, "'");
    vocabulary->set_byte(static_cast<uint8_t>(byte), token);
  }

  void read_trainer(std::string_view bytes) {
    MessageReader reader(bytes);
    for (Field field; reader.next(field);) {
      if (!field.is_number()) continue;
      const auto id = static_cast<int64_t>(field.value);
      if (field.number == 3) model_type = field.value;
      if (field.number == 24) space_suffix = field.flag();
      if (field.number == 35) byte_fallback = field.flag();
      if (field.number == 40) unknown = id;
      if (field.number == 41) bos = id;
      if (field.number == 42) eos = id;
    }
  }

  void read_normalizer(std::string_view bytes) {
    MessageReader reader(bytes);
    for (Field field; reader.next(field);) {
      if (field.number == 2 && !field.is_number()) character_map = field.bytes;
      if (field.number == 3 && field.is_number()) add_prefix = field.flag();
      if (field.number == 4 && field.is_number()) remove_extra = field.flag();
      if (field.number == 5 && field.is_number()) escape = field.flag();
    }
  }

  std::optional<Token> token(int64_t id, std::string_view what) const {
    if (id < 0) return std::nullopt;
    check(id < vocabulary->size(), what, " ", id, " is not a piece; there are ",
          vocabulary->size());
    return static_cast<Token>(id);
  }
};

PipelineTokenizer::Parts parts_of(const ModelProto& proto) {
  Vocabulary& vocabulary = *proto.vocabulary;
  PipelineTokenizer::Parts parts;
  std::vector<std::string> pieces;
  for (Token token = 0; token < vocabulary.size(); ++token) {
    const std::string& text = vocabulary.text(token);
    const TokenKind kind = vocabulary.kind(token);
    if (kind == TokenKind::byte)
      pieces.emplace_back(1, static_cast<char>(byte_of_name(text)));
    else
      pieces.push_back(vocabulary.is_control(token) ? text : with_spaces(text));
    if (text.empty()) continue;
    // Sentencepiece looks for what users defined in the normalized text.
    if (kind == TokenKind::user_defined)
      parts.normalized_added.add({.text = text, .token = token});
    else if (vocabulary.is_control(token))
      parts.added.add({.text = text, .token = token, .control = true});
  }
  vocabulary.set_pieces(std::move(pieces));
  if (!proto.character_map.empty())
    parts.normalizer.add(normalizing::character_map(proto.character_map));
  if (proto.remove_extra) parts.normalizer.add(normalizing::remove_extra_spaces());
  if (proto.add_prefix) parts.normalizer.add(normalizing::prepend(" "));
  parts.normalizer.add(normalizing::replace(" ", std::string(kSpaceMark)));
  parts.strips_first_space = proto.add_prefix;
  if (may_cut_at_space_marks(vocabulary)) parts.pre_tokenizer.add(split_at_space_marks());
  parts.bos = proto.token(proto.bos, "bos_id");
  parts.eos = proto.token(proto.eos, "eos_id");
  if (parts.bos) parts.before = {*parts.bos};
  parts.end_of_generation =
      end_tokens(vocabulary, parts.eos ? std::vector<Token>{*parts.eos} : std::vector<Token>{});
  return parts;
}

}  // namespace

TokenizerPtr tokenizer_from_sentencepiece(std::string_view bytes) {
  try {
    const ModelProto proto(bytes);
    check(proto.model_type == 1 || proto.model_type == 2,
          "the model type must be Unigram (1) or BPE (2), got ", proto.model_type);
    check(!proto.space_suffix && proto.escape, "blanks at the end of pieces are not supported");
    PipelineTokenizer::Parts parts = parts_of(proto);
    const Fallback fallback{.bytes = proto.byte_fallback,
                            .unknown = proto.token(proto.unknown, "unk_id").value_or(-1),
                            .fuse = true};
    const bool unigram = proto.model_type == 1;
    if (unigram)
      parts.model = std::make_unique<UnigramModel>(proto.vocabulary, fallback);
    else
      parts.model = std::make_unique<ScoreModel>(proto.vocabulary, fallback);
    parts.vocabulary = proto.vocabulary;
    parts.description = concat(unigram ? "Unigram" : "sentencepiece BPE", ", ",
                               proto.vocabulary->size(), " tokens, from a sentencepiece model");
    return std::make_shared<PipelineTokenizer>(std::move(parts));
  } catch (const InternalError&) {
    throw;
  } catch (const Error& error) {
    fail("sentencepiece model: ", error.what());
  }
}

}  // namespace tensora::llm
