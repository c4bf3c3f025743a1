// Products of bytes and depthwise filters, compiled for AVX-512 with VNNI alone.
#include <immintrin.h>

#include "pair_nodes.h"
#include "simd.h"

namespace diptych::SET {
namespace {

constexpr int TILE = 4, VECTORS = 6;  // rows and vectors of columns that are summed at a time
constexpr int64_t ROWS_KEPT = 72;     // rows that are bytes at a time
constexpr float EPSILON = 1e-5f;      // of a layer norm

struct Range {
  float least, step;  // x = least + step * byte
};

inline Vector as_vector(__m512 x) { return reinterpret_cast<Vector>(x); }
inline float sum_of(Vector x) { return _mm512_reduce_add_ps(reinterpret_cast<__m512>(x)); }

// A row after its layer norm.
void normalize(const float* row, const float* norm, int64_t depth, float* normed) {
  Vector sum{}, squares{};
  for (int64_t k = 0; k < depth; k += LANES) sum += load(row + k);
  const float mean = sum_of(sum) / depth;
  for (int64_t k = 0; k < depth; k += LANES) {
    const Vector apart = load(row + k) - mean;
    squares += apart * apart;
  }
  const float scale = 1.0f / __builtin_sqrtf(sum_of(squares) / depth + EPSILON);
  for (int64_t k = 0; k < depth; k += LANES)
    store(normed + k, (load(row + k) - mean) * scale * load(norm + k) + load(norm + depth + k));
}

// A row of numbers as bytes between its least and its largest.
Range to_bytes(const float* row, const float* norm, int64_t depth, float* normed, uint8_t* bytes) {
  if (norm) {
    normalize(row, norm, depth, normed);
    row = normed;
  }
  Vector low = load(row), high = low;
  __mmask16 no_number = 0;
  for (int64_t k = 0; k < depth; k += LANES) {
    const Vector x = load(row + k);
    no_number |= _mm512_cmp_ps_mask(reinterpret_cast<__m512>(x), reinterpret_cast<__m512>(x), _CMP_UNORD_Q);
    low = x < low ? x : low;
    high = x > high ? x : high;
  }
  const float least = _mm512_reduce_min_ps(reinterpret_cast<__m512>(low));
  const float largest = _mm512_reduce_max_ps(reinterpret_cast<__m512>(high));
  const float step = (largest - least) / 255.0f, inverse = step > 0.0f ? 1.0f / step : 0.0f;
  for (int64_t k = 0; k < depth; k += LANES) {
    const __m512i whole = _mm512_cvtps_epi32(reinterpret_cast<__m512>((load(row + k) - least) * inverse));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(bytes + k), _mm512_cvtusepi32_epi8(whole));
  }
  return {no_number ? __builtin_nanf("") : least, step};  // which no byte could say
}

// x times the normal distribution's share below x, to 5e-5.
inline Vector gelu_of(Vector x) {
  Vector held = x < -4.4f ? Vector{} - 4.4f : x;
  held = held > 4.4f ? Vector{} + 4.4f : held;
  const Vector square = held * held;
  Vector share = 3.57272584e-11f * square - 3.75671139e-09f;
  share = share * square + 1.74173646e-07f;
  share = share * square - 4.72645434e-06f;
  share = share * square + 8.4309302e-05f;
  share = share * square - 0.00105508903f;
  share = share * square + 0.00964334079f;
  share = share * square - 0.0660769128f;
  share = share * square + 0.398761859f;
  return x * (share * held + 0.5f);
}

// R rows of bytes times V vectors of columns from `column` on.
template <int R, int V>
void tile(const Product& product, const uint8_t* bytes, const Range* ranges, int64_t row, int64_t column) {
  const int64_t depth = product.depth;
  const int8_t* weights = product.weights + column * depth;
  __m512i sum[R][V];
  for (int r = 0; r < R; r++)
    for (int v = 0; v < V; v++) sum[r][v] = _mm512_setzero_si512();
  for (int64_t k = 0; k < depth; k += 4) {
    __m512i lanes[V];
    for (int v = 0; v < V; v++) lanes[v] = _mm512_loadu_si512(weights + BLOCK * (v * depth + k));
    for (int r = 0; r < R; r++) {
      int32_t four;
      __builtin_memcpy(&four, bytes + r * depth + k, 4);
      const __m512i each = _mm512_set1_epi32(four);
      for (int v = 0; v < V; v++) sum[r][v] = _mm512_dpbusd_epi32(sum[r][v], each, lanes[v]);
    }
  }
  alignas(64) int32_t whole[R][V * LANES];  // out of the registers by constant places, or they would not stay in them
#pragma GCC unroll 8
  for (int r = 0; r < R; r++)
#pragma GCC unroll 8
    for (int v = 0; v < V; v++) _mm512_store_si512(whole[r] + v * LANES, sum[r][v]);
  for (int v = 0; v < V; v++) {
    const int64_t at = column + v * LANES;
    const Vector scale = load(product.scales + at), of_least = load(product.scales + product.width + at);
    const Vector bias = product.bias ? load(product.bias + at) : Vector{};
    for (int r = 0; r < R; r++) {
      const Vector sums = as_vector(_mm512_cvtepi32_ps(_mm512_load_si512(whole[r] + v * LANES)));
      Vector y = sums * (scale * ranges[r].step) + (of_least * ranges[r].least + bias);
      if (product.gelu) y = gelu_of(y);
      const int64_t place = (row + r) * product.width + at;
      if (product.residual) y += load(product.residual + place);
      store(product.y + place, y);
    }
  }
}

template <int V>
void columns(const Product& product, const uint8_t* bytes, const Range* ranges, int64_t first, int64_t count,
             int64_t column) {
  int64_t row = 0;
  for (; row + TILE <= count; row += TILE)
    tile<TILE, V>(product, bytes + row * product.depth, ranges + row, first + row, column);
  for (; row < count; row++) tile<1, V>(product, bytes + row * product.depth, ranges + row, first + row, column);
}

}  // namespace

int64_t product_bytes(const Product& product) { return (ROWS_KEPT + 4) * product.depth; }

void multiply_bytes(const Product& product, uint8_t* scratch) {
  const int64_t depth = product.depth;
  float* normed = reinterpret_cast<float*>(scratch);
  uint8_t* bytes = scratch + 4 * depth;
  Range ranges[ROWS_KEPT];
  for (int64_t first = 0; first < product.rows; first += ROWS_KEPT) {
    const int64_t count = product.rows - first < ROWS_KEPT ? product.rows - first : ROWS_KEPT;
    for (int64_t row = 0; row < count; row++)
      ranges[row] = to_bytes(product.x + (first + row) * depth, product.norm, depth, normed, bytes + row * depth);
    int64_t column = 0;
    for (; column + VECTORS * BLOCK <= product.width; column += VECTORS * BLOCK)
      columns<VECTORS>(product, bytes, ranges, first, count, column);
    for (; column + 2 * BLOCK <= product.width; column += 2 * BLOCK)
      columns<2>(product, bytes, ranges, first, count, column);
    if (column < product.width) columns<1>(product, bytes, ranges, first, count, column);
  }
}

int64_t filter_floats(const Depthwise& depthwise) {
  return depthwise.norm ? depthwise.rows * depthwise.cols * depthwise.channels : 0;
}

void filter(const Depthwise& depthwise, const float** taps, float* scratch) {
  const int64_t rows = depthwise.rows, cols = depthwise.cols, channels = depthwise.channels;
  for (int64_t grid = 0; grid < depthwise.count; grid++) {
    const float* x = depthwise.x + grid * rows * cols * channels;
    float* y = depthwise.y + grid * rows * cols * channels;
    if (depthwise.norm) {
      for (int64_t at = 0; at < rows * cols * channels; at += channels)
        normalize(x + at, depthwise.norm, channels, scratch + at);
      x = scratch;
    }
    for (int64_t place = 0; place < rows * cols; place++) {
      const int64_t top = place / cols - depthwise.height / 2, left = place % cols - depthwise.breadth / 2;
      int64_t count = 0;  // of the taps within the grid: what they read, and by what it is multiplied
      for (int64_t i = 0; i < depthwise.height; i++)
        for (int64_t j = 0; j < depthwise.breadth; j++) {
          if (top + i < 0 || top + i >= rows || left + j < 0 || left + j >= cols) continue;
          taps[count++] = x + ((top + i) * cols + left + j) * channels;
          taps[count++] = depthwise.filter + (i * depthwise.breadth + j) * channels;
        }
      for (int64_t channel = 0; channel < channels; channel += LANES) {
        Vector sum{};
        for (int64_t tap = 0; tap < count; tap += 2) sum += load(taps[tap] + channel) * load(taps[tap + 1] + channel);
        store(y + place * channels + channel, sum);
      }
    }
  }
}

}  // namespace diptych::SET
