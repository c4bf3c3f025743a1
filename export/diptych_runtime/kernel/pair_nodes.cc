// The nodes of the pair graph in 8 bits for ONNX Runtime.
#include "pair_nodes.h"

#include "node.h"

namespace diptych {
namespace {

bool usable() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni");
#else
  return false;
#endif
}

}  // namespace

#if defined(__x86_64__)
namespace {

template <class Number>
Number* scratch(int64_t count) {
  static thread_local std::vector<Number> kept;
  if (kept.size() < static_cast<size_t>(count)) kept.resize(count);
  return kept.data();
}

// x (..., depth), norm (2, depth) or empty, weights, scales (2, width), bias (width) or empty, residual or empty.
struct ByteProduct {
  static constexpr const char* NAME = "diptych::ByteProductV1";
  static constexpr int INPUTS[] = {ort::FLOAT32, ort::FLOAT32, ort::INT8, ort::FLOAT32, ort::FLOAT32, ort::FLOAT32};
  static constexpr size_t OUTPUTS = 1;
  int64_t gelu = 0;

  OrtStatus* read(const OrtKernelInfo* info) { return attributes(info, {{"gelu", &gelu}}); }

  OrtStatus* compute(OrtKernelContext* context, const Tensor* inputs) const {
    const auto& [x, norm, weights, scales, bias, residual] = *reinterpret_cast<const Tensor(*)[6]>(inputs);
    if (x.shape.empty() || weights.shape.size() != 4 || scales.shape.size() != 2)
      return refuse(NAME, "expected x (..., K), weights (N / 16, K / 4, 16, 4) and scales (2, N)");
    const int64_t depth = x.shape.back(), width = scales.shape[1], rows = depth ? x.count() / depth : 0;
    if (depth % BLOCK || width % BLOCK || !depth || x.count() < 0 || scales.shape[0] != 2 ||
        weights.shape != std::vector<int64_t>{width / BLOCK, depth / 4, BLOCK, 4} || weights.count() < 0 ||
        !norm.is_empty_or(product_of({2, depth})) || !bias.is_empty_or(width) ||
        (rows && !residual.is_empty_or(product_of({rows, width}))))
      return refuse(NAME, "the sizes of its inputs do not fit, or are no multiples of 16");
    std::vector<int64_t> shape = x.shape;
    shape.back() = width;
    float* y = nullptr;
    if (OrtStatus* status = output(context, 0, shape, &y)) return status;
    if (!rows) return nullptr;
    const Product product{x.floats(),          norm.floats_if_any(), static_cast<const int8_t*>(weights.data),
                          scales.floats(),     bias.floats_if_any(), residual.floats_if_any(),
                          y,                   rows,                 depth,
                          width,               gelu != 0};
    vnni::multiply_bytes(product, scratch<uint8_t>(vnni::product_bytes(product)));
    return nullptr;
  }
};

// x (B, N, M, c), norm (2, c) or empty and a filter (n, m, c) -> (B, N, M, c).
struct DepthwiseFilter {
  static constexpr const char* NAME = "diptych::DepthwiseFilterV1";
  static constexpr int INPUTS[] = {ort::FLOAT32, ort::FLOAT32, ort::FLOAT32};
  static constexpr size_t OUTPUTS = 1;

  OrtStatus* read(const OrtKernelInfo*) { return nullptr; }

  OrtStatus* compute(OrtKernelContext* context, const Tensor* inputs) const {
    const Tensor &x = inputs[0], &norm = inputs[1], &filter = inputs[2];
    if (x.shape.size() != 4 || filter.shape.size() != 3 || x.shape[3] % BLOCK || x.shape[3] != filter.shape[2] ||
        filter.count() < 1 || x.count() < 0 || !norm.is_empty_or(product_of({2, x.shape[3]})))
      return refuse(NAME, "expected x (B, N, M, c), a norm (2, c) and a filter (n, m, c), c a multiple of 16");
    float* y = nullptr;
    if (OrtStatus* status = output(context, 0, x.shape, &y)) return status;
    const int64_t height = filter.shape[0], breadth = filter.shape[1];
    const Depthwise depthwise{x.floats(), norm.floats_if_any(), filter.floats(), y,      x.shape[0],
                              x.shape[1], x.shape[2],           x.shape[3],      height, breadth};
    vnni::filter(depthwise, scratch<const float*>(2 * height * breadth), scratch<float>(vnni::filter_floats(depthwise)));
    return nullptr;
  }
};

// Tokens (B, N, M, d) twice, places (2, N M) and the sharpness (1) -> merged, best and mean of both panels.
struct PanelCorrespondence {
  static constexpr const char* NAME = "diptych::CorrespondenceV1";
  static constexpr int INPUTS[] = {ort::FLOAT32, ort::FLOAT32, ort::FLOAT32, ort::FLOAT32};
  static constexpr size_t OUTPUTS = 6;
  int64_t width = 0, merge = 0;

  OrtStatus* read(const OrtKernelInfo* info) { return attributes(info, {{"width", &width}, {"merge", &merge}}); }

  OrtStatus* compute(OrtKernelContext* context, const Tensor* inputs) const {
    const Tensor &a = inputs[0], &b = inputs[1], &place = inputs[2], &sharpness = inputs[3];
    if (a.shape.size() != 4 || a.shape != b.shape) return refuse(NAME, "expected tokens (B, N, M, d) twice");
    const int64_t batch = a.shape[0], rows = a.shape[1], cols = a.shape[2], depth = a.shape[3];
    const int64_t count = product_of({rows, cols});
    if (count < 1 || count % BLOCK || product_of({count, count}) < 0 || a.count() < 0 || width < 1 || width > depth ||
        merge < 1 || rows % merge || cols % merge || place.count() != 2 * count || sharpness.count() != 1)
      return refuse(NAME, "the sizes of its inputs do not fit, or the tokens of a panel are no multiple of 16");
    const int64_t joined = merge * merge * (width + EVIDENCE);
    const std::vector<int64_t> shapes[] = {{batch, rows / merge, cols / merge, joined}, {batch, count}, {batch, width}};
    float* made[3][2];
    for (size_t what = 0; what < 3; what++)
      for (size_t panel = 0; panel < 2; panel++)
        if (OrtStatus* status = output(context, 2 * what + panel, shapes[what], &made[what][panel])) return status;
    Correspondence pair{{a.floats(), b.floats()}, place.floats(), *sharpness.floats(), rows, cols, depth, width, merge,
                        {made[0][0], made[0][1]}, {made[1][0], made[1][1]}, {made[2][0], made[2][1]}};
    float* kept = scratch<float>(vnni::correspondence_floats(pair));
    for (int64_t entry = 0; entry < batch; entry++) {
      vnni::correspond(pair, kept);
      for (int panel = 0; panel < 2; panel++) {
        pair.tokens[panel] += count * depth;
        pair.merged[panel] += count / (merge * merge) * joined;
        pair.best[panel] += count;
        pair.mean[panel] += width;
      }
    }
    return nullptr;
  }
};

}  // namespace
#endif

std::vector<OrtCustomOp> with_pair_nodes(std::vector<OrtCustomOp> ops) {
#if defined(__x86_64__)
  if (usable()) {
    ops.push_back(described<ByteProduct>());
    ops.push_back(described<DepthwiseFilter>());
    ops.push_back(described<PanelCorrespondence>());
  }
#endif
  return ops;
}

}  // namespace diptych

// The instructions that the nodes of the pair graph in 8 bits are run by; empty where the processor lacks them.
extern "C" __attribute__((visibility("default"))) const char* diptych_byte_instructions() {
  return diptych::usable() ? "avx512_vnni" : "";
}

#if defined(__x86_64__)
#define EXPORTED extern "C" __attribute__((visibility("default")))

// The nodes' computations without ONNX Runtime, for a comparison with their definitions; only where the instructions
// above are not empty.
EXPORTED void diptych_multiply_bytes(const float* x, const float* norm, const int8_t* weights, const float* scales,
                                     const float* bias, const float* residual, float* y, int64_t rows, int64_t depth,
                                     int64_t width, int64_t gelu) {
  const diptych::Product product{x, norm, weights, scales, bias, residual, y, rows, depth, width, gelu != 0};
  std::vector<uint8_t> scratch(diptych::vnni::product_bytes(product));
  diptych::vnni::multiply_bytes(product, scratch.data());
}

EXPORTED void diptych_filter(const float* x, const float* norm, const float* filter, float* y, int64_t count,
                             int64_t rows, int64_t cols, int64_t channels, int64_t height, int64_t breadth) {
  const diptych::Depthwise depthwise{x, norm, filter, y, count, rows, cols, channels, height, breadth};
  std::vector<const float*> taps(2 * height * breadth);
  std::vector<float> scratch(diptych::vnni::filter_floats(depthwise));
  diptych::vnni::filter(depthwise, taps.data(), scratch.data());
}

EXPORTED void diptych_correspond(const float* a, const float* b, const float* place, float sharpness, int64_t rows,
                                 int64_t cols, int64_t depth, int64_t width, int64_t merge, float* merged_a,
                                 float* merged_b, float* best_a, float* best_b, float* mean_a, float* mean_b) {
  const diptych::Correspondence pair{{a, b},           place,  sharpness,        rows,
                                     cols,             depth,  width,            merge,
                                     {merged_a, merged_b}, {best_a, best_b}, {mean_a, mean_b}};
  std::vector<float> scratch(diptych::vnni::correspondence_floats(pair));
  diptych::vnni::correspond(pair, scratch.data());
}
#endif
