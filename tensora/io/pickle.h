#pragma once

#include <cstdint>
#include <string_view>
#include <utility>

#include "tensora/core/dtype.h"

// What the reader and the writer of Python's pickles share.

namespace tensora::io::pickle {

/// The instructions of protocols 2 to 5 that checkpoints need.
enum Opcode : uint8_t {
  kMark = '(',
  kStop = '.',
  kPop = '0',
  kPopMark = '1',
  kDuplicate = '2',
  kBinFloat = 'G',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kNone = 'N',
  kBinPersId = 'Q',
  kReduce = 'R',
  kBinString = 'T',
  kShortBinString = 'U',
  kBinUnicode = 'X',
  kAppend = 'a',
  kBuild = 'b',
  kGlobal = 'c',
  kDict = 'd',
  kAppends = 'e',
  kBinGet = 'h',
  kLongBinGet = 'j',
  kList = 'l',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kSetItem = 's',
  kTuple = 't',
  kSetItems = 'u',
  kEmptyDict = '}',
  kEmptyList = ']',
  kEmptyTuple = ')',
  kBinBytes = 'B',
  kShortBinBytes = 'C',
  kProto = 0x80,
  kNewObj = 0x81,
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kLong1 = 0x8a,
  kLong4 = 0x8b,
  kShortBinUnicode = 0x8c,
  kBinUnicode8 = 0x8d,
  kBinBytes8 = 0x8e,
  kEmptySet = 0x8f,
  kAddItems = 0x90,
  kFrozenSet = 0x91,
  kStackGlobal = 0x93,
  kMemoize = 0x94,
  kFrame = 0x95,
  kByteArray8 = 0x96,
};

/// The deepest nesting of lists and dicts that is written or read.
inline constexpr int kMostDepth = 100;

/// PyTorch's classes of storages; a dtype that is not here has an untyped one.
inline constexpr std::pair<DType, std::string_view> kStorageClasses[] = {
    {kBool, "BoolStorage"},
    {kUInt8, "ByteStorage"},
    {kInt8, "CharStorage"},
    {kInt16, "ShortStorage"},
    {kInt32, "IntStorage"},
    {kInt64, "LongStorage"},
    {kFloat16, "HalfStorage"},
    {kBFloat16, "BFloat16Storage"},
    {kFloat32, "FloatStorage"},
    {kFloat64, "DoubleStorage"},
    {kComplex64, "ComplexFloatStorage"},
    {kComplex128, "ComplexDoubleStorage"},
};

}  // namespace tensora::io::pickle
