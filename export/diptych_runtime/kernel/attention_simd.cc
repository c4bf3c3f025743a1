// The computation, compiled once for each set of instructions: -DSET=name -DLANES=floats a vector -DROWS=rows a tile.
//
// Both products are one loop, `multiply`: the scores with keys as rows and queries as lanes, so that the softmax over
// the keys never leaves its lane, the sum of values with queries as rows and channels as lanes, so that it is written
// as it lies. Only the queries are ever transposed.
#include "attention.h"
#include "simd.h"

namespace diptych::SET {
namespace {

constexpr int64_t QUERIES = 2 * LANES;  // a block of them

inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
inline int64_t distance(int64_t a, int64_t b) { return a < b ? b - a : a - b; }

// queries (count, d) a `stride` apart -> (d, QUERIES) times scale; lanes past `count` are 0.
void spread(const float* queries, int64_t stride, int64_t count, int64_t width, float scale, float* to) {
  for (int64_t lane = 0; lane < QUERIES; lane += LANES) {
    int64_t channel = 0;
    if (lane + LANES <= count) {
      for (; channel + LANES <= width; channel += LANES) {
        Vector square[LANES];
        for (int i = 0; i < LANES; i++) square[i] = load(queries + (lane + i) * stride + channel) * scale;
        transpose(square);
        for (int i = 0; i < LANES; i++) store(to + (channel + i) * QUERIES + lane, square[i]);
      }
    }
    for (; channel < width; channel++) {
      for (int64_t i = lane; i < lane + LANES; i++) {
        to[channel * QUERIES + i] = i < count ? queries[i * stride + channel] * scale : 0.0f;
      }
    }
  }
}

// `count` floats, a number that is known when this is compiled, or at least 0.
template <int64_t COUNT>
inline void copy(const float* from, int64_t count, float* to) {
  using Eight = float __attribute__((vector_size(32), aligned(4), may_alias));
  if constexpr (COUNT > 0) count = COUNT;
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) *reinterpret_cast<Eight*>(to + i) = *reinterpret_cast<const Eight*>(from + i);
  for (; i < count; i++) to[i] = from[i];
}

// The bias of the keys of one row of the grid against `run` queries of one row: (cols, QUERIES). Each is one run of the
// mirrored table, that of the next key begins one place before.
template <int64_t RUN = 0>
void lay_row(const float* of_first_key, int64_t cols, int64_t run, float* to) {
  for (int64_t col = 0; col < cols; col++) copy<RUN>(of_first_key - col, run, to + col * QUERIES);
}

// The bias of every key against queries [first, first + count): (T, QUERIES).
void lay_bias(const Problem& problem, int64_t head, int64_t first, int64_t count, float* scores) {
  const int64_t rows = problem.rows, cols = problem.cols, span = 2 * problem.reach - 1;
  for (int64_t lane = 0; lane < count;) {
    const int64_t query = first + lane, panel = query / (rows * cols), row = query / cols % rows, col = query % cols;
    const int64_t run = least(cols - col, count - lane);
    const auto lay = run == 8 ? lay_row<8> : run == 16 ? lay_row<16> : lay_row<>;
    for (int64_t key_panel = 0; key_panel < problem.panels; key_panel++) {
      const int64_t kind = problem.kinds > 1 && panel != key_panel;
      const int64_t apart = problem.reach != cols ? (panel - key_panel) * cols : 0;
      for (int64_t key_row = 0; key_row < rows; key_row++) {
        const float* of_row = problem.bias + ((kind * problem.heads + head) * rows + distance(row, key_row)) * span;
        lay(of_row + problem.reach - 1 + apart + col, cols, run,
            scores + (key_panel * rows + key_row) * cols * QUERIES + lane);
      }
    }
    lane += run;
  }
}

// The scores (T, QUERIES): keys (T, d_a) a `stride` apart times V vectors of queries (d_a, QUERIES), and the bias; each
// query's largest.
template <int V>
void score(const Problem& problem, const float* keys, int64_t stride, const float* queries, const float* bias,
           float* scores, Vector (&largest)[V]) {
  for (int v = 0; v < V; v++) largest[v] = Vector{} - __builtin_inff();
  in_tiles(problem.tokens(), [&](auto rows, int64_t start) {
    constexpr int R = decltype(rows)::count;
    float* of_tile = scores + start * QUERIES;
    const float* bias_of_tile = bias + start * QUERIES;
    Vector sum[R][V];
    for (int r = 0; r < R; r++)
      for (int v = 0; v < V; v++) sum[r][v] = load(bias_of_tile + r * QUERIES + v * LANES);
    multiply(sum, keys + start * stride, stride, 1, queries, QUERIES, problem.key_width);
    for (int r = 0; r < R; r++)
      for (int v = 0; v < V; v++) {
        store(of_tile + r * QUERIES + v * LANES, sum[r][v]);
        largest[v] = sum[r][v] > largest[v] ? sum[r][v] : largest[v];
      }
  });
}

// 2^(score - largest) in the place of the scores; 1 / their sum, for each query.
template <int V>
void soften(int64_t tokens, const Vector (&largest)[V], float* scores, float* shares) {
  Vector sum[V] = {};
  for (int64_t t = 0; t < tokens; t++) {
    for (int v = 0; v < V; v++) {
      float* place = scores + t * QUERIES + v * LANES;
      const Vector x = exp2_of(load(place) - largest[v]);
      store(place, x);
      sum[v] += x;
    }
  }
  for (int v = 0; v < V; v++) store(shares + v * LANES, 1.0f / sum[v]);
}

template <int V>
void score_and_soften(const Problem& problem, const float* keys, int64_t stride, const float* queries, const float* bias,
                      float* scores, float* shares) {
  Vector largest[V];
  score(problem, keys, stride, queries, bias, scores, largest);
  soften(problem.tokens(), largest, scores, shares);
}

// The values (T, d_o) a `stride` apart, weighed, for queries [0, count); V vectors of channels from `values` on, of
// which `width` are written.
template <int V>
void weigh(const float* scores, const float* shares, int64_t tokens, const float* values, int64_t stride,
           int64_t count, int64_t width, float* to, int64_t to_stride) {
  in_tiles(count, [&](auto rows, int64_t start) {
    constexpr int R = decltype(rows)::count;
    Vector sum[R][V] = {};
    multiply(sum, scores + start, 1, QUERIES, values, stride, tokens);
    for (int r = 0; r < R; r++) {
      float* of_row = to + (start + r) * to_stride;
      for (int v = 0; v < V; v++) {
        const Vector y = sum[r][v] * shares[start + r];
        if ((v + 1) * LANES <= width) {
          store(of_row + v * LANES, y);
        } else {
          for (int64_t i = v * LANES; i < width; i++) of_row[i] = y[i - v * LANES];
        }
      }
    }
  });
}

inline int64_t padded(int64_t width) { return (width + LANES - 1) / LANES * LANES; }

// One entry's queries [first, first + count) of a head, whose bias is laid out.
void attend_block(const Problem& problem, int64_t entry, int64_t head, int64_t first, int64_t count, const float* bias,
                  float* scratch) {
  const int64_t tokens = problem.tokens(), stride = problem.width(), width = problem.value_width;
  const int64_t keys_at = problem.heads * problem.key_width;
  const float* queries = problem.projected + entry * tokens * stride + head * problem.key_width;
  const float* keys = queries + keys_at;
  const float* values = problem.projected + entry * tokens * stride + 2 * keys_at + head * width;

  float* scores = scratch;
  float* spread_queries = scores + QUERIES * tokens;
  float* shares = spread_queries + QUERIES * problem.key_width;
  int64_t value_stride = stride;
  if (width % LANES) {  // whole vectors would reach into what is not there
    float* wide = shares + QUERIES;
    value_stride = padded(width);
    for (int64_t t = 0; t < tokens; t++)
      for (int64_t i = 0; i < value_stride; i++) wide[t * value_stride + i] = i < width ? values[t * stride + i] : 0.0f;
    values = wide;
  }
  const float scale = LOG2_E / __builtin_sqrtf(static_cast<float>(problem.key_width));
  spread(queries + first * stride, stride, count, problem.key_width, scale, spread_queries);
  if (count > LANES)
    score_and_soften<2>(problem, keys, stride, spread_queries, bias, scores, shares);
  else
    score_and_soften<1>(problem, keys, stride, spread_queries, bias, scores, shares);
  float* to = problem.attended + (entry * tokens + first) * problem.heads * width + head * width;
  int64_t channel = 0;
  for (; width - channel > LANES; channel += 2 * LANES)
    weigh<2>(scores, shares, tokens, values + channel, value_stride, count, width - channel, to + channel,
             problem.heads * width);
  if (channel < width)
    weigh<1>(scores, shares, tokens, values + channel, value_stride, count, width - channel, to + channel,
             problem.heads * width);
}

}  // namespace

int64_t scratch_floats(const Problem& problem) {
  return QUERIES * (2 * problem.tokens() + problem.key_width + 1) + problem.tokens() * padded(problem.value_width);
}

void attend(const Problem& problem, int64_t task, float* scratch) {
  const int64_t tokens = problem.tokens(), head = task % problem.heads;
  const int64_t begin = task / problem.heads * Problem::TOGETHER, end = least(begin + Problem::TOGETHER, problem.batch);
  float* bias = scratch;
  for (int64_t first = 0; first < tokens; first += QUERIES) {
    const int64_t count = least(QUERIES, tokens - first);
    if (count < QUERIES)
      for (int64_t i = 0; i < QUERIES * tokens; i++) bias[i] = 0.0f;  // lanes that nobody asks for
    lay_bias(problem, head, first, count, bias);
    for (int64_t entry = begin; entry < end; entry++)
      attend_block(problem, entry, head, first, count, bias, scratch + QUERIES * tokens);
  }
}

}  // namespace diptych::SET
