// Attention over the positions of all panels with a relative positional bias: Eq. 2-4 of the MSAC paper.
//
//   y_i = sum_r softmax_r(q_i . k_r / sqrt(d_a) + b[kind, |row_i - row_r|, |col_i - col_r|]) v_r
//
// No memory of T x T: a block of queries against all keys at a time.
#pragma once

#include <cstdint>

namespace diptych {

struct Problem {
  const float* projected;  // (B, T, C (2 d_a + d_o)): the queries of all heads, then all keys, then all values
  const float* bias;       // (kinds, C, rows, 2 reach - 1): the table mirrored in its columns, times log2(e)
  float* attended;         // (B, T, C d_o)
  int64_t batch;           // B
  int64_t heads;           // C
  int64_t panels, rows, cols;      // T = panels * rows * cols positions, panel by panel
  int64_t key_width, value_width;  // d_a, d_o
  int64_t kinds;                   // 1, or 2: within a panel, across panels
  int64_t reach;  // columns the bias knows: cols, or panels * cols where they are counted on over the seam

  int64_t tokens() const { return panels * rows * cols; }
  int64_t width() const { return heads * (2 * key_width + value_width); }
  int64_t tasks() const { return (batch + TOGETHER - 1) / TOGETHER * heads; }

  static constexpr int64_t TOGETHER = 8;  // entries of a batch for which the bias is laid out once
};

// For each set of instructions (attention_simd.cc): attend for one head of some batch entries, `task` of `tasks`, in
// `scratch` of `scratch_floats`.
#define DIPTYCH_INSTRUCTIONS(set)                                       \
  namespace set {                                                       \
  void attend(const Problem& problem, int64_t task, float* scratch);    \
  int64_t scratch_floats(const Problem& problem);                       \
  }
#if defined(__x86_64__)
DIPTYCH_INSTRUCTIONS(avx512)
DIPTYCH_INSTRUCTIONS(avx2)
#endif
DIPTYCH_INSTRUCTIONS(generic)
#undef DIPTYCH_INSTRUCTIONS

}  // namespace diptych
