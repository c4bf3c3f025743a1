// Vectors of LANES floats and what is done with them, for each set of instructions that includes this.
//
// Of the standard library nothing is called here: its inline functions, compiled with other instructions, could be taken
// by the linker for all.
#pragma once

#include <cstdint>
#include <utility>

namespace diptych::SET {
namespace {

using Vector = float __attribute__((vector_size(4 * LANES)));
using Integers = int32_t __attribute__((vector_size(4 * LANES)));
using Unaligned = float __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

constexpr float LOG2_E = 1.44269504f;

inline Vector load(const float* from) { return *reinterpret_cast<const Unaligned*>(from); }
inline void store(float* to, Vector x) { *reinterpret_cast<Unaligned*>(to) = x; }

// 2^x to about one unit in the last place, for x <= 0; 0 below -126. What is no number stays none.
inline Vector exp2_of(Vector x) {
  x = x < -126.0f ? Vector{} - 126.0f : x;
  const Vector shifted = x + 12582912.0f;  // 1.5 * 2^23: the last bits are now the nearest whole number
  const Vector whole = shifted - 12582912.0f, rest = x - whole;
  Vector power = 0.000153458124f * rest + 0.00133999309f;
  power = power * rest + 0.00961848907f;
  power = power * rest + 0.0555032864f;
  power = power * rest + 0.240226462f;
  power = power * rest + 0.693147182f;
  power = power * rest + 1.0f;
  const Integers exponent = (reinterpret_cast<Integers>(shifted) + 127) << 23;  // what 12582912 adds is shifted out
  return power * reinterpret_cast<Vector>(exponent);
}

template <int R>
struct Rows {
  static constexpr int count = R;
};

// Calls work(Rows<R>, start) for rows [0, count) in tiles of ROWS, and once for what is left.
template <int R, class Work>
inline void last_tile(int64_t left, int64_t start, const Work& work) {
  if constexpr (R > 0) {
    if (left == R) return work(Rows<R>{}, start);
    last_tile<R - 1>(left, start, work);
  }
}
template <class Work>
inline void in_tiles(int64_t count, const Work& work) {
  int64_t start = 0;
  for (; start + ROWS <= count; start += ROWS) work(Rows<ROWS>{}, start);
  last_tile<ROWS - 1>(count - start, start, work);
}

// sum[r][:] += sum_k a(r, k) b(k)[:], where a(r, k) = a[r * row + k * step] and b(k) = b + k * b_step.
template <int R, int V>
inline __attribute__((always_inline)) void multiply(Vector (&sum)[R][V], const float* a, int64_t row, int64_t step,
                                                    const float* b, int64_t b_step, int64_t steps) {
  for (int64_t k = 0; k < steps; k++) {
    Vector lanes[V];
    for (int v = 0; v < V; v++) lanes[v] = load(b + k * b_step + v * LANES);
    for (int r = 0; r < R; r++) {
      const float each = a[r * row + k * step];
      for (int v = 0; v < V; v++) sum[r][v] += each * lanes[v];
    }
  }
}

// A square of LANES x LANES is transposed by swapping its blocks of HALF off the diagonal, for every half.
template <int HALF, int... I>
inline void swap_blocks(Vector (&square)[LANES], std::integer_sequence<int, I...>) {
  for (int i = 0; i < LANES; i++) {
    if (i & HALF) continue;
    const Vector above = square[i], below = square[i + HALF];
    square[i] = __builtin_shufflevector(above, below, (I & HALF ? I + LANES - HALF : I)...);
    square[i + HALF] = __builtin_shufflevector(above, below, (I & HALF ? I + LANES : I + HALF)...);
  }
}
template <int HALF = LANES / 2>
inline void transpose(Vector (&square)[LANES]) {
  swap_blocks<HALF>(square, std::make_integer_sequence<int, LANES>{});
  if constexpr (HALF > 1) transpose<HALF / 2>(square);
}

}  // namespace
}  // namespace diptych::SET
