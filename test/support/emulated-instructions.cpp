// Products of tiles as tensor cores compute them. The first lane to run after all have met computes the sums of all lanes:
// its operands and theirs lie on the stacks of waiting threads.
#include "emulated-instructions.h"
#include "emulated-halves.h"
#include <cstring>

namespace emulated {

namespace {

constexpr unsigned allLanes = 0xffffffff;
constexpr int tileRows = 16, tileColumns = 8, mostPlaces = 16;

float toFloat(unsigned half, TileType type) {
  const uint16_t bits = static_cast<uint16_t>(half);
  return type == TileType::bfloat16 ? __bfloat162float(__nv_bfloat16{bits}) : __half2float(__half{bits});
}

// The value of a side at one of its places, from the words that lane 4 g + t holds at `t` and `t + 4` of each row.
float readPlace(const unsigned* first, const unsigned* second, int place, TileType type) {
  const int count = type == TileType::tf32 ? 4 : 8;
  const unsigned word = *(place < count ? first : second);
  if (type != TileType::tf32) return toFloat(word >> place % 2 * 16, type);
  const unsigned truncated = word & 0xffffe000;
  float value;
  std::memcpy(&value, &truncated, sizeof value);
  return value;
}

void multiply(TileLane* const (&lanes)[warpSize], TileType type) {
  const int places = type == TileType::tf32 ? 8 : 16;
  float left[tileRows][mostPlaces], right[tileColumns][mostPlaces];
  for (int place = 0; place < places; place++) {
    const int t = type == TileType::tf32 ? place % 4 : place % 8 / 2;
    for (int g = 0; g < 8; g++) {
      const TileLane& lane = *lanes[4 * g + t];
      left[g][place] = readPlace(&lane.left[0], &lane.left[2], place, type);
      left[g + 8][place] = readPlace(&lane.left[1], &lane.left[3], place, type);
      right[g][place] = readPlace(&lane.right[0], &lane.right[1], place, type);
    }
  }
  for (int index = 0; index < warpSize; index++)
    for (int part = 0; part < 4; part++) {
      const float* const row = left[index / 4 + part / 2 * 8];
      const float* const column = right[index % 4 * 2 + part % 2];
      float& sum = lanes[index]->sums[part];
      for (int place = 0; place < places; place++) sum += row[place] * column[place];
    }
}

}  // namespace

void multiplyTiles(TileLane& own, TileType type) {
  waitForLanes(allLanes, reinterpret_cast<uint64_t>(&own));
  forgetReads();
  if (own.isComputed) return;
  TileLane missing;  // lanes that have finished or never existed: NaN in every type
  std::memset(&missing, 0xff, sizeof missing);
  TileLane* lanes[warpSize];
  for (unsigned lane = 0; lane < warpSize; lane++) {
    const uint64_t offered = valueOffered(allLanes, lane);
    lanes[lane] = offered == ~uint64_t{0} ? &missing : reinterpret_cast<TileLane*>(offered);
  }
  multiply(lanes, type);
  for (TileLane* lane : lanes)
    if (lane != &missing) lane->isComputed = true;
}

unsigned packBfloat16(float upper, float lower) {
  return static_cast<unsigned>(__float2bfloat16(upper).bits) << 16 | __float2bfloat16(lower).bits;
}

unsigned packFloat16(float upper, float lower) {
  return static_cast<unsigned>(__float2half(upper).bits) << 16 | __float2half(lower).bits;
}

float widenFloat16(unsigned short half) { return __half2float(__half{half}); }

}  // namespace emulated
