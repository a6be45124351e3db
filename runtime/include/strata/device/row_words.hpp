// Integers of weights side by side, as words of four signed bytes of a few neighbouring rows.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "strata/scalar.hpp"
#include "strata/simt/simt.hpp"

namespace strata::device {

// Rows of a group of the compute layout that device kernels read.
inline constexpr int kGroupRows = 16;

template <class Type, int Count>
struct Several {
  Type v[Count];
};

// An integer, or several, as wide as one load or store of a GPU.
template <std::size_t Bytes>
struct Wide;
template <>
struct Wide<1> {
  using Type = std::uint8_t;
};
template <>
struct Wide<2> {
  using Type = std::uint16_t;
};
template <>
struct Wide<4> {
  using Type = std::uint32_t;
};
template <>
struct Wide<8> {
  using Type = std::uint64_t;
};
template <>
struct Wide<16> {
  using Type = unsigned __int128;
};

// `Count` neighbours, which on a GPU are aligned to the size of all of them and one load.
template <class Type, int Count>
STRATA_INLINE Several<Type, Count> load_several(const void* at) {
#if defined(__CUDA_ARCH__) || defined(__HIP_DEVICE_COMPILE__)
  return bit_cast<Several<Type, Count>>(*static_cast<const typename Wide<sizeof(Type) * Count>::Type*>(at));
#else
  Several<Type, Count> all;
  __builtin_memcpy(&all, at, sizeof all);
  return all;
#endif
}

// The other way round.
template <class Type, int Count>
STRATA_INLINE void store_several(void* at, const Several<Type, Count>& all) {
#if defined(__CUDA_ARCH__) || defined(__HIP_DEVICE_COMPILE__)
  using Word = typename Wide<sizeof(Type) * Count>::Type;
  *static_cast<Word*>(at) = bit_cast<Word>(all);
#else
  __builtin_memcpy(at, &all, sizeof all);
#endif
}

// What the layouts' code that reads integers is written against, for `Rows` rows of a group: a lane's share.
template <simt::Simt S, int Rows>
struct RowWords {
  // An address in the block of a group, and the first of the rows, a multiple of `Rows`.
  struct At {
    const std::byte* block;
    int row;

    STRATA_INLINE At operator+(std::size_t offset) const { return {block + offset, row}; }
  };

  using Bytes = Several<std::uint32_t, Rows>;

  // Four bits of each row.
  struct Mask {
    std::uint32_t v[Rows];
  };

  // Bits of every byte that are still to be moved to their place.
  template <int Shift, int Bits, int To>
  struct Picked {
    Bytes raw;

    STRATA_INLINE operator Bytes() const {
      constexpr std::uint32_t kMask = ((1u << Bits) - 1u) * 0x01010101u << To;
      Bytes moved;
      for (int r = 0; r < Rows; ++r) {
        moved.v[r] = (Shift >= To ? raw.v[r] >> (Shift - To) : raw.v[r] << (To - Shift)) & kMask;
      }
      return moved;
    }
  };

  STRATA_INLINE static Bytes load_bytes(At at) { return load_several<std::uint32_t, Rows>(at.block + 4 * at.row); }

  STRATA_INLINE static Mask load_mask(At at) {
    Mask mask;
    if constexpr (Rows == 1) {
      mask.v[0] = static_cast<std::uint32_t>(at.block[at.row / 2]) >> (4 * (at.row % 2)) & 0xfu;
    } else {
      for (int r = 0; r < Rows; r += 2) {
        const auto both = static_cast<std::uint32_t>(at.block[(at.row + r) / 2]);
        mask.v[r] = both & 0xfu;
        mask.v[r + 1] = both >> 4;
      }
    }
    return mask;
  }

  template <int Shift, int Bits, int To>
  STRATA_INLINE static Picked<Shift, Bits, To> pick(const Bytes& raw) {
    return {raw};
  }

  STRATA_INLINE static Bytes join(Bytes a, const Bytes& b) {
    for (int r = 0; r < Rows; ++r) a.v[r] |= b.v[r];
    return a;
  }

  template <int Value>
  STRATA_INLINE static Bytes where(const Mask& mask) {
    Bytes bytes;
    for (int r = 0; r < Rows; ++r) bytes.v[r] = (mask.v[r] * 0x00204081u & 0x01010101u) * Value;
    return bytes;
  }

  // Codes stand for a number plus 128: what is returned is the number.
  template <int Shift>
  STRATA_INLINE static Bytes look_up(const std::array<std::int8_t, 16>& codes, const Picked<Shift, 4, 0>& indices) {
    std::uint32_t table[4];
    for (int i = 0; i < 4; ++i) {
      table[i] = 0x80808080u;
      for (int byte = 0; byte < 4; ++byte) {
        table[i] ^= static_cast<std::uint32_t>(static_cast<std::uint8_t>(codes[4 * i + byte])) << (8 * byte);
      }
    }
    Bytes found;
    for (int r = 0; r < Rows; ++r) found.v[r] = S::template look_up<Shift>(table, indices.raw.v[r]);
    return found;
  }
};

}  // namespace strata::device
