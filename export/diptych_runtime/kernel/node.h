// What a node needs to be run by ONNX Runtime: its inputs, outputs and attributes, and its description.
//
// A node is a struct of its attributes, with NAME ("domain::Name"), the element types INPUTS, the number OUTPUTS (all
// float32), read(info) of the attributes and compute(context, inputs).
#pragma once

#include <cstring>
#include <exception>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "onnxruntime_abi.h"

namespace diptych {

inline OrtApi*& api() {
  static OrtApi* known = nullptr;
  return known;
}

// The product of sizes; -1 where one is negative, or where it exceeds what any memory holds.
template <class Sizes = std::initializer_list<int64_t>>
int64_t product_of(const Sizes& sizes) {
  constexpr int64_t LARGEST = int64_t{1} << 48;
  int64_t product = 1;
  for (int64_t size : sizes) {
    if (size <= 0) return size ? -1 : 0;
    if (__builtin_mul_overflow(product, size, &product) || product > LARGEST) return -1;
  }
  return product;
}

struct Tensor {
  std::vector<int64_t> shape;
  const void* data = nullptr;

  const float* floats() const { return static_cast<const float*>(data); }
  int64_t count() const { return product_of(shape); }
  const float* floats_if_any() const { return count() ? floats() : nullptr; }
  bool is_empty_or(int64_t expected) const { return count() == 0 || (count() > 0 && count() == expected); }
};

inline OrtStatus* refuse(const char* name, const std::string& fault) {
  return ort::call(api(), ort::CreateStatus, ort::INVALID_ARGUMENT, (std::string(name) + ": " + fault).c_str());
}

inline OrtStatus* attributes(const OrtKernelInfo* info,
                             std::initializer_list<std::pair<const char*, int64_t*>> wanted) {
  for (const auto& [name, value] : wanted)
    if (OrtStatus* status = ort::call(api(), ort::KernelInfoGetAttribute_int64, info, name, value)) return status;
  return nullptr;
}

inline OrtStatus* input(OrtKernelContext* context, size_t place, Tensor* tensor) {
  const OrtValue* value = nullptr;
  const OrtKernelContext* of = context;
  if (OrtStatus* status = ort::call(api(), ort::KernelContext_GetInput, of, place, &value)) return status;
  if (!value) return refuse("diptych", "an input is missing");
  OrtTensorTypeAndShapeInfo* info = nullptr;
  if (OrtStatus* status = ort::call(api(), ort::GetTensorTypeAndShape, value, &info)) return status;
  const OrtTensorTypeAndShapeInfo* known = info;
  size_t axes = 0;
  OrtStatus* status = ort::call(api(), ort::GetDimensionsCount, known, &axes);
  if (!status) {
    tensor->shape.resize(axes);
    status = ort::call(api(), ort::GetDimensions, known, tensor->shape.data(), axes);
  }
  ort::call<void>(api(), ort::ReleaseTensorTypeAndShapeInfo, info);
  if (status) return status;
  return ort::call(api(), ort::GetTensorMutableData, const_cast<OrtValue*>(value), (void**)&tensor->data);
}

inline OrtStatus* output(OrtKernelContext* context, size_t place, const std::vector<int64_t>& shape, float** data) {
  OrtValue* value = nullptr;
  if (OrtStatus* status =
          ort::call(api(), ort::KernelContext_GetOutput, context, place, shape.data(), shape.size(), &value))
    return status;
  if (!value) return refuse("diptych", "an output is missing");
  return ort::call(api(), ort::GetTensorMutableData, value, (void**)data);
}

template <class Node>
OrtCustomOp described() {
  OrtCustomOp op{};
  op.version = ort::CUSTOM_OP;
  op.GetName = [](const OrtCustomOp*) { return std::strchr(Node::NAME, ':') + 2; };
  op.GetExecutionProviderType = [](const OrtCustomOp*) { return "CPUExecutionProvider"; };
  op.GetInputTypeCount = [](const OrtCustomOp*) { return std::size(Node::INPUTS); };
  op.GetOutputTypeCount = [](const OrtCustomOp*) { return Node::OUTPUTS; };
  op.GetInputType = [](const OrtCustomOp*, size_t place) { return Node::INPUTS[place]; };
  op.GetOutputType = [](const OrtCustomOp*, size_t) { return ort::FLOAT32; };
  op.GetInputCharacteristic = op.GetOutputCharacteristic = [](const OrtCustomOp*, size_t) { return ort::REQUIRED; };
  op.GetInputMemoryType = [](const OrtCustomOp*, size_t) { return ort::DEFAULT_MEMORY; };
  op.GetVariadicInputMinArity = op.GetVariadicOutputMinArity = [](const OrtCustomOp*) { return 1; };
  op.GetVariadicInputHomogeneity = op.GetVariadicOutputHomogeneity = [](const OrtCustomOp*) { return 1; };
  op.KernelDestroy = [](void* kernel) { delete static_cast<Node*>(kernel); };
  op.CreateKernelV2 = [](const OrtCustomOp*, OrtApi*, const OrtKernelInfo* info, void** made) -> OrtStatus* {
    Node node;
    if (OrtStatus* status = node.read(info)) return status;
    *made = new Node(node);
    return nullptr;
  };
  op.KernelComputeV2 = [](void* made, OrtKernelContext* context) -> OrtStatus* {
    Tensor inputs[std::size(Node::INPUTS)];
    for (size_t place = 0; place < std::size(Node::INPUTS); place++)
      if (OrtStatus* status = input(context, place, &inputs[place])) return status;
    try {
      return static_cast<Node*>(made)->compute(context, inputs);
    } catch (const std::exception& error) {  // of scratch, which may be more than there is
      return refuse(Node::NAME, error.what());
    }
  };
  return op;
}

// The nodes of the pair graph in 8 bits besides, where the processor can run them (pair_nodes.cc).
std::vector<OrtCustomOp> with_pair_nodes(std::vector<OrtCustomOp> ops);

}  // namespace diptych
