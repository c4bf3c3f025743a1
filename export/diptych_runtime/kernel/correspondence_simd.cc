// The correspondence of two panels: their cosines are made once, and both ways of reading them use one exponential.
//
// exp(s / t) of a softmax is taken as exp((s - 1) / t), which does not overflow: no cosine is above 1. So the shares of
// rows and of columns differ only in the sum that they are divided by, and the mean places are linear in the same
// numbers.
#include <immintrin.h>

#include "pair_nodes.h"
#include "simd.h"

namespace diptych::SET {
namespace {

inline float sum_of(Vector x) { return _mm512_reduce_add_ps(reinterpret_cast<__m512>(x)); }
inline float largest_of(Vector x) { return _mm512_reduce_max_ps(reinterpret_cast<__m512>(x)); }
inline __mmask16 lanes_of(int64_t count) { return count < LANES ? (1u << count) - 1 : 0xffff; }
inline Vector first_of(const float* from, int64_t count) {
  return reinterpret_cast<Vector>(_mm512_maskz_loadu_ps(lanes_of(count), from));
}
inline void store_first(float* to, int64_t count, Vector x) {
  _mm512_mask_storeu_ps(to, lanes_of(count), reinterpret_cast<__m512>(x));
}
inline int64_t padded(int64_t width) { return (width + LANES - 1) / LANES * LANES; }

// Unit tokens (T, padded width) of tokens (T, depth), filled with 0, and their mean (width).
void normalize(const float* tokens, const Correspondence& pair, float* unit, float* mean) {
  const int64_t count = pair.tokens_a_panel(), width = pair.width, wide = padded(width);
  for (int64_t t = 0; t < count; t++) {
    const float* from = tokens + t * pair.depth;
    float* to = unit + t * wide;
    Vector squares{};
    for (int64_t i = 0; i < wide; i += LANES) {
      const Vector x = first_of(from + i, width - i);
      squares += x * x;
      store(to + i, x);
    }
    const float length = __builtin_sqrtf(sum_of(squares)), scale = 1.0f / (length > 1e-12f ? length : 1e-12f);
    for (int64_t i = 0; i < wide; i += LANES) store(to + i, load(to + i) * scale);
  }
  for (int64_t i = 0; i < wide; i += LANES) {
    Vector sum{};
    for (int64_t t = 0; t < count; t++) sum += load(unit + t * wide + i);
    sum /= static_cast<float>(count);
    store_first(mean + i, width - i, sum);
  }
}

// (T, wide) -> (wide, T); both sizes are multiples of LANES.
void turn(const float* from, int64_t count, int64_t wide, float* to) {
  for (int64_t t = 0; t < count; t += LANES)
    for (int64_t i = 0; i < wide; i += LANES) {
      Vector square[LANES];
      for (int lane = 0; lane < LANES; lane++) square[lane] = load(from + (t + lane) * wide + i);
      transpose(square);
      for (int lane = 0; lane < LANES; lane++) store(to + (i + lane) * count + t, square[lane]);
    }
}

// What is summed up for each token of a panel, (T) each.
struct Found {
  float *sum, *x, *y, *largest, *back_x, *back_y;

  Found(float* scratch, int64_t count)
      : sum(scratch),
        x(sum + count),
        y(x + count),
        largest(y + count),
        back_x(largest + count),
        back_y(back_x + count) {}
};

// Cosines of tokens [row, row + R) of a with V vectors of b's, and what they say in both directions.
template <int R, int V>
void compare(const Correspondence& pair, const float* unit_a, const float* turned_b, int64_t row, int64_t column,
             float* shares, Found& of_b, Vector (&of_a)[R][4]) {
  const int64_t count = pair.tokens_a_panel(), wide = padded(pair.width);
  Vector cosine[R][V] = {};
  multiply(cosine, unit_a + row * wide, wide, 1, turned_b + column, count, wide);
  const float sharp = pair.sharpness * LOG2_E;
  for (int v = 0; v < V; v++) {
    const int64_t at = column + v * LANES;
    Vector sum = load(of_b.sum + at), x = load(of_b.x + at), y = load(of_b.y + at), largest = load(of_b.largest + at);
    const Vector place_x = load(pair.place + at), place_y = load(pair.place + count + at);
    for (int r = 0; r < R; r++) {
      const Vector s = cosine[r][v], share = exp2_of((s - 1.0f) * sharp);
      store(shares + (row + r) * count + at, share);
      sum += share;
      x += share * pair.place[row + r];
      y += share * pair.place[count + row + r];
      largest = s > largest ? s : largest;
      of_a[r][0] += share;
      of_a[r][1] += share * place_x;
      of_a[r][2] += share * place_y;
      of_a[r][3] = s > of_a[r][3] ? s : of_a[r][3];
    }
    store(of_b.sum + at, sum);
    store(of_b.x + at, x);
    store(of_b.y + at, y);
    store(of_b.largest + at, largest);
  }
}

void compare_all(const Correspondence& pair, const float* unit_a, const float* turned_b, float* shares, Found& of_a,
                 Found& of_b) {
  const int64_t count = pair.tokens_a_panel();
  float* const sums_of_b[] = {of_b.sum, of_b.x, of_b.y, of_b.back_x, of_b.back_y};
  for (int64_t at = 0; at < count; at += LANES) {
    for (float* sum : sums_of_b) store(sum + at, Vector{});
    store(of_b.largest + at, Vector{} - __builtin_inff());
  }
  in_tiles(count, [&](auto rows, int64_t row) {
    constexpr int R = decltype(rows)::count;
    Vector sums[R][4] = {};
    for (int r = 0; r < R; r++) sums[r][3] -= __builtin_inff();
    int64_t column = 0;
    for (; column + 3 * LANES <= count; column += 3 * LANES)
      compare<R, 3>(pair, unit_a, turned_b, row, column, shares, of_b, sums);
    for (; column < count; column += LANES) compare<R, 1>(pair, unit_a, turned_b, row, column, shares, of_b, sums);
    for (int r = 0; r < R; r++) {
      of_a.sum[row + r] = sum_of(sums[r][0]);
      of_a.x[row + r] = sum_of(sums[r][1]);
      of_a.y[row + r] = sum_of(sums[r][2]);
      of_a.largest[row + r] = largest_of(sums[r][3]);
    }
  });
  Found* const both[] = {&of_a, &of_b};
  for (Found* found : both)
    for (int64_t at = 0; at < count; at += LANES) {
      const Vector scale = 1.0f / load(found->sum + at);
      store(found->sum + at, scale);
      store(found->x + at, load(found->x + at) * scale);
      store(found->y + at, load(found->y + at) * scale);
    }
}

// Where one arrives who goes over and back.
void go_back(int64_t count, const float* shares, Found& of_a, Found& of_b) {
  for (int64_t row = 0; row < count; row++) {
    Vector x{}, y{};
    for (int64_t at = 0; at < count; at += LANES) {
      const Vector share = load(shares + row * count + at);
      x += share * load(of_b.x + at);
      y += share * load(of_b.y + at);
      store(of_b.back_x + at, load(of_b.back_x + at) + share * of_a.x[row]);
      store(of_b.back_y + at, load(of_b.back_y + at) + share * of_a.y[row]);
    }
    of_a.back_x[row] = sum_of(x) * of_a.sum[row];
    of_a.back_y[row] = sum_of(y) * of_a.sum[row];
  }
  for (int64_t at = 0; at < count; at++) {
    of_b.back_x[at] *= of_b.sum[at];
    of_b.back_y[at] *= of_b.sum[at];
  }
}

// Unit tokens times the root of their width and their evidence, merge x merge neighbours in a row.
void merge(const Correspondence& pair, const float* unit, const Found& found, float* merged) {
  const int64_t cols = pair.cols, side = pair.merge, width = pair.width, wide = padded(width), each = width + EVIDENCE;
  const float root = __builtin_sqrtf(static_cast<float>(width));
  for (int64_t t = 0; t < pair.tokens_a_panel(); t++) {
    const int64_t row = t / cols, col = t % cols;
    const int64_t place = (row / side * (cols / side) + col / side) * side * side + row % side * side + col % side;
    float* to = merged + place * each;
    for (int64_t i = 0; i < wide; i += LANES) store_first(to + i, width - i, load(unit + t * wide + i) * root);
    const float x = found.back_x[t] - pair.place[t], y = found.back_y[t] - pair.place[pair.tokens_a_panel() + t];
    const float evidence[EVIDENCE] = {found.largest[t], found.x[t], found.y[t], x, y, x * x + y * y};
    for (int64_t i = 0; i < EVIDENCE; i++) to[width + i] = evidence[i];
  }
}

}  // namespace

int64_t correspondence_floats(const Correspondence& pair) {
  const int64_t count = pair.tokens_a_panel();
  return 3 * count * padded(pair.width) + count * count + 12 * count;
}

void correspond(const Correspondence& pair, float* scratch) {
  const int64_t count = pair.tokens_a_panel(), size = count * padded(pair.width);
  float *unit_a = scratch, *unit_b = unit_a + size, *turned = unit_b + size, *shares = turned + size;
  Found of_a(shares + count * count, count), of_b(shares + count * count + 6 * count, count);
  normalize(pair.tokens[0], pair, unit_a, pair.mean[0]);
  normalize(pair.tokens[1], pair, unit_b, pair.mean[1]);
  turn(unit_b, count, padded(pair.width), turned);
  compare_all(pair, unit_a, turned, shares, of_a, of_b);
  go_back(count, shares, of_a, of_b);
  merge(pair, unit_a, of_a, pair.merged[0]);
  merge(pair, unit_b, of_b, pair.merged[1]);
  for (int64_t t = 0; t < count; t++) pair.best[0][t] = of_a.largest[t], pair.best[1][t] = of_b.largest[t];
}

}  // namespace diptych::SET
