// diptych::RelPosAttentionV2 for ONNX Runtime on the CPU, and the same as a plain C function.
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>
#include <vector>

#include "attention.h"
#include "node.h"
#include "pair_nodes.h"

namespace diptych {
namespace {

struct Instructions {
  const char* name;
  void (*attend)(const Problem&, int64_t, float*);
  int64_t (*scratch_floats)(const Problem&);
  bool usable;
};

const std::vector<Instructions>& instruction_sets() {  // the best first
  static const std::vector<Instructions> sets = {
#if defined(__x86_64__)
      {"avx512", avx512::attend, avx512::scratch_floats, bool(__builtin_cpu_supports("avx512f"))},
      {"avx2", avx2::attend, avx2::scratch_floats,
       __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")},
#endif
      {"generic", generic::attend, generic::scratch_floats, true},
  };
  return sets;
}

// The named instructions, or the best that this processor has; none where it lacks what was asked for.
const Instructions* instructions_called(const char* name) {
  for (const Instructions& set : instruction_sets())
    if (set.usable && (!name || !*name || !std::strcmp(name, set.name))) return &set;
  return nullptr;
}

// The table (kinds, C, rows, reach) mirrored in its columns, in units of log2: (kinds, C, rows, 2 reach - 1).
std::vector<float> mirrored(const float* table, int64_t lines, int64_t reach) {
  std::vector<float> bias(lines * (2 * reach - 1));
  for (int64_t line = 0; line < lines; line++)
    for (int64_t x = 1 - reach; x < reach; x++)
      bias[line * (2 * reach - 1) + reach - 1 + x] = table[line * reach + std::llabs(x)] * 1.44269504f;
  return bias;
}

struct Job {
  const Problem& problem;
  const Instructions& instructions;
  std::atomic<bool> failed{false};

  void operator()(int64_t task) const {
    static thread_local std::vector<float> scratch;
    const auto floats = static_cast<size_t>(instructions.scratch_floats(problem));
    if (scratch.size() < floats) scratch.resize(floats);
    instructions.attend(problem, task, scratch.data());
  }
};

// What the widths of the inputs must be; empty if they are.
std::string fault_of(const Problem& problem, int64_t positions, int64_t width, const std::vector<int64_t>& table) {
  auto text = [](const std::vector<int64_t>& shape) {
    std::string out = "(";
    for (size_t i = 0; i < shape.size(); i++) out += (i ? ", " : "") + std::to_string(shape[i]);
    return out + ")";
  };
  if (problem.heads < 1 || problem.panels < 1 || problem.key_width < 1 || problem.value_width < 1)  // bounds the rest
    return "heads, panels and key_width must be positive, and leave every head a value";
  if (problem.kinds < 1 || problem.kinds > 2 || table[1] != problem.heads)
    return "the table must be (1 or 2, " + std::to_string(problem.heads) + ", rows, cols), got " + text(table);
  const int64_t tokens = product_of({problem.panels, problem.rows, problem.cols});
  if (tokens < 1 || tokens != positions ||
      (problem.reach != problem.cols && problem.reach != product_of({problem.panels, problem.cols})))
    return "a table of " + text(table) + " and " + std::to_string(problem.panels) + " panels make " +
           (tokens < 0 ? "too many" : std::to_string(tokens)) + " positions, the input has " + std::to_string(positions);
  if (width != problem.width()) return "the input's width " + std::to_string(width) + " does not divide by the heads";
  return "";
}

// The problem less its tensors: of `table` (kinds, C, rows, reach), where `joined` counts columns on over the seam.
Problem shaped(int64_t heads, int64_t panels, int64_t key_width, bool joined, int64_t width,
               const std::vector<int64_t>& table) {
  const int64_t cols = joined && panels > 0 ? table[3] / panels : table[3];
  const int64_t each = heads > 0 ? product_of({width}) / heads : 0;
  const int64_t value_width = 0 < key_width && key_width < each ? each - 2 * key_width : 0;
  return {nullptr, nullptr, nullptr, 0, heads, panels, table[2], cols, key_width, value_width, table[0], table[3]};
}

struct Attention {
  static constexpr const char* NAME = "diptych::RelPosAttentionV2";
  static constexpr int INPUTS[] = {ort::FLOAT32, ort::FLOAT32};
  static constexpr size_t OUTPUTS = 1;
  int64_t heads = 0, panels = 0, key_width = 0, joined = 0;

  OrtStatus* read(const OrtKernelInfo* info) {
    return attributes(info, {{"heads", &heads}, {"panels", &panels}, {"key_width", &key_width}, {"joined", &joined}});
  }

  OrtStatus* compute(OrtKernelContext* context, const Tensor* inputs) const {
    const Tensor &projected = inputs[0], &table = inputs[1];
    if (projected.shape.size() != 3 || table.shape.size() != 4)
      return refuse(NAME, "projected (B, T, C (2 d_a + d_o)) and a table (kinds, C, N, M) are expected");
    Problem problem = shaped(heads, panels, key_width, joined, projected.shape[2], table.shape);
    const std::string fault = fault_of(problem, projected.shape[1], projected.shape[2], table.shape);
    if (!fault.empty()) return refuse(NAME, fault);
    const int64_t batch = projected.shape[0];
    if (OrtStatus* status =
            output(context, 0, {batch, projected.shape[1], heads * problem.value_width}, &problem.attended))
      return status;
    if (!batch) return nullptr;
    const auto bias = mirrored(table.floats(), problem.kinds * heads * problem.rows, problem.reach);
    problem.projected = projected.floats();
    problem.bias = bias.data();
    problem.batch = batch;
    Job job{problem, *instructions_called(nullptr), {}};
    const auto work = [](void* job, size_t task) {
      auto& todo = *static_cast<Job*>(job);
      try {
        todo(static_cast<int64_t>(task));
      } catch (const std::exception&) {  // which would end the process in another thread
        todo.failed = true;
      }
    };
    if (OrtStatus* status = ort::call(api(), ort::KernelContext_ParallelFor, (const OrtKernelContext*)context,
                                      (void (*)(void*, size_t))work, size_t(problem.tasks()), size_t{0}, (void*)&job))
      return status;
    return job.failed ? refuse(NAME, "there is too little memory") : nullptr;
  }
};

}  // namespace
}  // namespace diptych

#define EXPORTED extern "C" __attribute__((visibility("default")))

// Called by ONNX Runtime when the library is registered with a session.
EXPORTED OrtStatus* RegisterCustomOps(OrtSessionOptions* options, const OrtApiBase* base) {
  using namespace diptych;
  api() = base->GetApi(ort::API);
  static const auto ops = with_pair_nodes({described<Attention>()});
  static OrtCustomOpDomain* domain = nullptr;  // lives as long as the library
  if (!domain) {
    if (OrtStatus* status = ort::call(api(), ort::CreateCustomOpDomain, "diptych", &domain)) return status;
    for (const OrtCustomOp& op : ops)
      if (OrtStatus* status = ort::call(api(), ort::CustomOpDomain_Add, domain, &op)) return status;
  }
  return ort::call(api(), ort::AddCustomOpDomain, options, domain);
}

// The name of the instructions that are used here.
EXPORTED const char* diptych_instructions() { return diptych::instructions_called(nullptr)->name; }

// What this library was built from (build.py).
EXPORTED const char* diptych_source_digest() { return SOURCE_DIGEST; }

// Attends without ONNX Runtime, on one thread, by the named instructions (null: the best). `table` is of shape
// (kinds, heads, rows, reach). Returns null, or what is wrong.
EXPORTED const char* diptych_attend(const char* instructions, const float* projected, int64_t batch, int64_t positions,
                                    int64_t width, const float* table, const int64_t* table_shape, int64_t heads,
                                    int64_t panels, int64_t key_width, int64_t joined, float* attended) {
  using namespace diptych;
  static thread_local std::string fault;
  const Instructions* set = instructions_called(instructions);
  if (!set) return "this processor has no such instructions, or the library was built without them";
  const std::vector<int64_t> shape(table_shape, table_shape + 4);
  Problem problem = shaped(heads, panels, key_width, joined != 0, width, shape);
  fault = fault_of(problem, positions, width, shape);
  if (!fault.empty()) return fault.c_str();
  const auto bias = mirrored(table, problem.kinds * heads * problem.rows, problem.reach);
  problem.projected = projected;
  problem.bias = bias.data();
  problem.attended = attended;
  problem.batch = batch;
  for (int64_t task = 0; task < problem.tasks(); task++) Job{problem, *set, {}}(task);
  return nullptr;
}
