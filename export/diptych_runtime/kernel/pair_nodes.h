// The nodes of the pair graph in 8 bits: products of bytes, depthwise filters that stay channels last, and the
// correspondence of two panels in one pass. Only where the processor has AVX-512 with VNNI.
#pragma once

#include <cstdint>

namespace diptych {

constexpr int64_t BLOCK = 16;     // columns of a product that lie together
constexpr int64_t EVIDENCE = 6;   // of a token: best match, mean place, way there and back (x, y, squared length)

// y = act(norm(x) W + bias) + residual. Each row of x becomes bytes between its least and its largest number, so that
// no row's result depends on another's; the sums of products are exact.
struct Product {
  const float* x;         // (rows, depth)
  const float* norm;      // (2, depth): a layer norm's scale and shift; or null
  const int8_t* weights;  // (width / BLOCK, depth / 4, BLOCK, 4)
  const float* scales;    // (2, width): what a column's whole numbers are multiplied by; that times their sum
  const float* bias;      // (width), or null
  const float* residual;  // (rows, width), or null
  float* y;               // (rows, width)
  int64_t rows, depth, width;
  bool gelu;
};

// y(n, m, c) = sum of x(n + i, m + j, c) filter(i, j, c), 0 outside of the grid.
struct Depthwise {
  const float* x;       // (count, rows, cols, channels)
  const float* norm;    // (2, channels): a layer norm before it; or null
  const float* filter;  // (height, breadth, channels)
  float* y;
  int64_t count, rows, cols, channels, height, breadth;
};

// See Correspondence in model/diptych_model/correspondence.py. T = rows * cols tokens a panel.
struct Correspondence {
  const float *tokens[2];  // (T, depth), of which `width` channels are compared
  const float* place;      // (2, T): x, y
  float sharpness;         // 1 / t
  int64_t rows, cols, depth, width, merge;
  float* merged[2];  // (T / merge^2, merge^2 (width + EVIDENCE))
  float* best[2];    // (T): each token's largest cosine
  float* mean[2];    // (width): the mean unit token

  int64_t tokens_a_panel() const { return rows * cols; }
};

#if defined(__x86_64__)
namespace vnni {
void multiply_bytes(const Product& product, uint8_t* scratch);  // of product_bytes(product)
int64_t product_bytes(const Product& product);
// With taps of 2 * height * breadth and scratch of filter_floats(depthwise).
void filter(const Depthwise& depthwise, const float** taps, float* scratch);
int64_t filter_floats(const Depthwise& depthwise);
void correspond(const Correspondence& pair, float* scratch);  // of correspondence_floats(pair)
int64_t correspondence_floats(const Correspondence& pair);
}  // namespace vnni
#endif

}  // namespace diptych
