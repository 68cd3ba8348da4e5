// PTX instructions that kernels use by inline assembly, as functions: results first, then operands, as in the assembly.
#pragma once
#include "emulated-threads.h"

namespace emulated {

enum class TileType { tf32, bfloat16, float16 };

// What one lane holds of a product of tiles: lane 4 g + t has rows g and g + 8 of the left side and column g of the right.
struct TileLane {
  float sums[4];
  unsigned left[4], right[2];
  bool isComputed;
};

// Waits for all lanes of the warp and adds the product to their sums.
EXPORTED void multiplyTiles(TileLane& own, TileType type);
// Two floats as halves in one word, each rounded to nearest even.
EXPORTED unsigned packBfloat16(float upper, float lower);
EXPORTED unsigned packFloat16(float upper, float lower);
EXPORTED float widenFloat16(unsigned short half);

template <TileType type>
void multiplyTile(float& sum0, float& sum1, float& sum2, float& sum3, unsigned left0, unsigned left1, unsigned left2,
                  unsigned left3, unsigned right0, unsigned right1) {
  TileLane own{{sum0, sum1, sum2, sum3}, {left0, left1, left2, left3}, {right0, right1}, false};
  multiplyTiles(own, type);
  forgetReads();
  sum0 = own.sums[0];
  sum1 = own.sums[1];
  sum2 = own.sums[2];
  sum3 = own.sums[3];
}

inline void loadFour(unsigned& x, unsigned& y, unsigned& z, unsigned& w, const void* from) {
  const unsigned* const words = static_cast<const unsigned*>(from);
  x = words[0];
  y = words[1];
  z = words[2];
  w = words[3];
}

inline void loadTwo(unsigned& x, unsigned& y, const void* from) {
  const unsigned* const words = static_cast<const unsigned*>(from);
  x = words[0];
  y = words[1];
}

/** Kernels run one after the other, and no compiler moves their loads. */
template <typename... Values> inline void doNothing(Values&...) {}

inline void roundToTf32(unsigned& rounded, float value) {
  __builtin_memcpy(&rounded, &value, sizeof rounded);
  if ((rounded & 0x7f800000) != 0x7f800000) rounded = (rounded + 0x1000) & 0xffffe000;
}

inline void packBfloat16(unsigned& packed, float upper, float lower) { packed = packBfloat16(upper, lower); }
inline void packFloat16(unsigned& packed, float upper, float lower) { packed = packFloat16(upper, lower); }

inline void widenFloat16(float& value, unsigned short half) { value = widenFloat16(half); }

}  // namespace emulated
