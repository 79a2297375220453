#pragma once

#include "tensora/base/half.h"
#include "tensora/base/host_device.h"

namespace tensora {

// Note [Sort keys]
// Elements are ordered as unsigned integers that compare like them: the sign bit of integers is
// flipped; a negative float has all bits flipped, a positive one its sign. All NaNs become the
// largest key, as in PyTorch, and -0 becomes +0, since they are equal. So a key tells the element
// except for zeros and NaNs, whose bits are read again where they matter (key_tells). In descending
// order the bits of the key are flipped, which keeps the order of equal elements.

template <int bytes>
struct KeyBits;
template <>
struct KeyBits<1> {
  using Raw = unsigned char;
};
template <>
struct KeyBits<2> {
  using Raw = unsigned short;
};
template <>
struct KeyBits<4> {
  using Raw = unsigned;
};
template <>
struct KeyBits<8> {
  using Raw = unsigned long long;
};

/// What the key of an element type is made of.
template <class T>
struct KeyTraits {
  static constexpr bool kFloating = false;
  static constexpr bool kSigned = T(-1) < T(0);
};
template <>
struct KeyTraits<bool> {
  static constexpr bool kFloating = false, kSigned = false;
};
template <unsigned long long infinity>
struct FloatKeyTraits {
  static constexpr bool kFloating = true, kSigned = true;
  static constexpr unsigned long long kInfinity = infinity;
};
template <>
struct KeyTraits<Half> : FloatKeyTraits<0x7c00> {};
template <>
struct KeyTraits<BFloat16> : FloatKeyTraits<0x7f80> {};
template <>
struct KeyTraits<float> : FloatKeyTraits<0x7f800000> {};
template <>
struct KeyTraits<double> : FloatKeyTraits<0x7ff0000000000000> {};

/// 32 bits serve all elements of up to four bytes.
template <class T>
using SortKey = typename KeyBits<sizeof(T) == 8 ? 8 : 4>::Raw;
template <class T>
inline constexpr int kKeyBits = 8 * static_cast<int>(sizeof(T));
/// The bits of a key that are in use; what descending order flips.
template <class T>
inline constexpr SortKey<T> kKeyMask = ~SortKey<T>(0) >> (8 * sizeof(SortKey<T>) - kKeyBits<T>);

template <class T>
TENSORA_HD inline SortKey<T> sort_key(T value) {
  using Key = SortKey<T>;
  constexpr Key kSign = Key(1) << (kKeyBits<T> - 1);
  const Key bits = __builtin_bit_cast(typename KeyBits<sizeof(T)>::Raw, value);
  if constexpr (KeyTraits<T>::kFloating) {
    const Key magnitude = bits & (kSign - 1);
    const Key key = (bits & kSign) != 0 && magnitude != 0 ? ~bits & kKeyMask<T> : magnitude | kSign;
    return magnitude > static_cast<Key>(KeyTraits<T>::kInfinity) ? kKeyMask<T> : key;
  } else {
    return KeyTraits<T>::kSigned ? bits ^ kSign : bits;
  }
}

/// Whether `element_of_key` gives back the very element.
template <class T>
TENSORA_HD inline bool key_tells(SortKey<T> key) {
  constexpr SortKey<T> kSign = SortKey<T>(1) << (kKeyBits<T> - 1);
  return !KeyTraits<T>::kFloating || (key != kSign && key != kKeyMask<T>);
}

template <class T>
TENSORA_HD inline T element_of_key(SortKey<T> key) {
  using Key = SortKey<T>;
  constexpr Key kSign = Key(1) << (kKeyBits<T> - 1);
  Key bits = key;
  if constexpr (KeyTraits<T>::kFloating)
    bits = (key & kSign) != 0 ? key ^ kSign : ~key & kKeyMask<T>;
  else if constexpr (KeyTraits<T>::kSigned)
    bits = key ^ kSign;
  return __builtin_bit_cast(T, static_cast<typename KeyBits<sizeof(T)>::Raw>(bits));
}

}  // namespace tensora
