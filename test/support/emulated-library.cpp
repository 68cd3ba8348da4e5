// The device's memory, and its products of matrices.
#include "emulated-halves.h"
#include <cstdlib>
#include <cstring>
#include <vector>

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace {

// As much as a block of the greatest size can miss by with one float each.
constexpr std::size_t guardBytes = 4096;
constexpr std::size_t alignment = 256;

// Words that are NaN in each type of float, so that reads past the end show. They differ from one allocation to the next: a
// kernel that runs past two ends at once would otherwise write the words of one over the same words of the other.
uint16_t guardWord(uint64_t serial) { return static_cast<uint16_t>(0xffc0 | (serial & 0x3f)); }

void writeGuard(char* guard, uint16_t word) {
  for (std::size_t offset = 0; offset < guardBytes; offset += sizeof word)
    std::memcpy(guard + offset, &word, sizeof word);
}

bool isGuardIntact(const char* guard, uint16_t word) {
  for (std::size_t offset = 0; offset < guardBytes; offset += sizeof word)
    if (std::memcmp(guard + offset, &word, sizeof word) != 0) return false;
  return true;
}

char* at(uint64_t address) { return reinterpret_cast<char*>(address); }

}  // namespace

// 0 where the system has no more memory.
EXPORTED uint64_t allocateMemory(uint64_t bytes, uint64_t serial) {
  const std::size_t whole = (bytes + 2 * guardBytes + alignment - 1) / alignment * alignment;
  char* memory = static_cast<char*>(std::aligned_alloc(alignment, whole));
  if (memory == nullptr) return 0;
  const uint64_t address = reinterpret_cast<uint64_t>(memory + guardBytes);
  writeGuard(memory, guardWord(serial));
  std::memset(at(address), 0xff, bytes);
  writeGuard(at(address + bytes), guardWord(serial));
  return address;
}

EXPORTED void freeMemory(uint64_t address) { std::free(at(address) - guardBytes); }

// -1: written before its beginning, 1: written past its end.
EXPORTED int findOverrun(uint64_t address, uint64_t bytes, uint64_t serial) {
  if (!isGuardIntact(at(address) - guardBytes, guardWord(serial))) return -1;
  return isGuardIntact(at(address + bytes), guardWord(serial)) ? 0 : 1;
}

EXPORTED void writeMemory(uint64_t to, const void* from, uint64_t bytes) { std::memcpy(at(to), from, bytes); }
EXPORTED void readMemory(void* to, uint64_t from, uint64_t bytes) { std::memcpy(to, at(from), bytes); }
EXPORTED void copyMemory(uint64_t to, uint64_t from, uint64_t bytes) { std::memcpy(at(to), at(from), bytes); }
EXPORTED void clearMemory(uint64_t address, uint64_t bytes) { std::memset(at(address), 0, bytes); }

namespace {

enum class Type : int32_t { float32, bfloat16, float16 };

struct Matrix {
  uint64_t address;
  int64_t rowStride, batchStride;
  Type type;
  int32_t transposed;
};

float readElement(const Matrix& matrix, int64_t index) {
  if (matrix.type == Type::bfloat16) return __bfloat162float(reinterpret_cast<const __nv_bfloat16*>(matrix.address)[index]);
  if (matrix.type == Type::float16) return __half2float(reinterpret_cast<const __half*>(matrix.address)[index]);
  return reinterpret_cast<const float*>(matrix.address)[index];
}

void writeElement(const Matrix& matrix, int64_t index, float value) {
  if (matrix.type == Type::bfloat16) reinterpret_cast<__nv_bfloat16*>(matrix.address)[index] = __float2bfloat16(value);
  else if (matrix.type == Type::float16) reinterpret_cast<__half*>(matrix.address)[index] = __float2half(value);
  else reinterpret_cast<float*>(matrix.address)[index] = value;
}

// One matrix of the stack, [rows][columns] whichever way it is stored.
std::vector<float> readMatrix(const Matrix& matrix, int64_t batch, int64_t rows, int64_t columns) {
  std::vector<float> values(rows * columns);
  const int64_t rowStep = matrix.transposed ? 1 : matrix.rowStride;
  const int64_t columnStep = matrix.transposed ? matrix.rowStride : 1;
  for (int64_t row = 0; row < rows; row++)
    for (int64_t column = 0; column < columns; column++)
      values[row * columns + column] =
          readElement(matrix, batch * matrix.batchStride + row * rowStep + column * columnStep);
  return values;
}

}  // namespace

struct Product {
  int64_t rows, columns, inner, batch;
  Matrix left, right, result;
  uint64_t addend;  // 0: nothing is added
  float scale;
};

EXPORTED void multiplyMatrices(const Product* product) {
  const auto [rows, columns, inner, batches, left, right, result, addend, scale] = *product;
  Matrix added = result;
  added.address = addend;
  std::vector<float> sums(columns);
  for (int64_t batch = 0; batch < batches; batch++) {
    const std::vector<float> leftValues = readMatrix(left, batch, rows, inner);
    const std::vector<float> rightValues = readMatrix(right, batch, inner, columns);
    for (int64_t row = 0; row < rows; row++) {
      sums.assign(columns, 0.0f);
      for (int64_t index = 0; index < inner; index++)
        for (int64_t column = 0; column < columns; column++)
          sums[column] += leftValues[row * inner + index] * rightValues[index * columns + column];
      for (int64_t column = 0; column < columns; column++) {
        const int64_t index = batch * result.batchStride + row * result.rowStride + column;
        writeElement(result, index, scale * sums[column] + (addend == 0 ? 0.0f : readElement(added, index)));
      }
    }
  }
}
