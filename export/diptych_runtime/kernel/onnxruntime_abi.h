// The part of ONNX Runtime's C interface that a CPU kernel needs, declared here so that no header of it is needed to
// build. The interface is a table of functions to which entries are only ever added; the numbers are their places.
// Read off onnxruntime_c_api.h by offsetof; equal in the versions 17 to 29 of the interface.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {
struct OrtStatus;
struct OrtSessionOptions;
struct OrtCustomOpDomain;
struct OrtKernelInfo;
struct OrtKernelContext;
struct OrtValue;
struct OrtTensorTypeAndShapeInfo;

using OrtApi = void* const;

struct OrtApiBase {
  OrtApi* (*GetApi)(uint32_t version);
  const char* (*GetVersionString)();
};

// An operator; `version` says how far ONNX Runtime may read. What is null is not called.
struct OrtCustomOp {
  uint32_t version;
  void* (*CreateKernel)(const OrtCustomOp*, OrtApi*, const OrtKernelInfo*);
  const char* (*GetName)(const OrtCustomOp*);
  const char* (*GetExecutionProviderType)(const OrtCustomOp*);
  int (*GetInputType)(const OrtCustomOp*, size_t);
  size_t (*GetInputTypeCount)(const OrtCustomOp*);
  int (*GetOutputType)(const OrtCustomOp*, size_t);
  size_t (*GetOutputTypeCount)(const OrtCustomOp*);
  void (*KernelCompute)(void*, OrtKernelContext*);
  void (*KernelDestroy)(void*);
  int (*GetInputCharacteristic)(const OrtCustomOp*, size_t);
  int (*GetOutputCharacteristic)(const OrtCustomOp*, size_t);
  int (*GetInputMemoryType)(const OrtCustomOp*, size_t);
  int (*GetVariadicInputMinArity)(const OrtCustomOp*);
  int (*GetVariadicInputHomogeneity)(const OrtCustomOp*);
  int (*GetVariadicOutputMinArity)(const OrtCustomOp*);
  int (*GetVariadicOutputHomogeneity)(const OrtCustomOp*);
  OrtStatus* (*CreateKernelV2)(const OrtCustomOp*, OrtApi*, const OrtKernelInfo*, void**);
  OrtStatus* (*KernelComputeV2)(void*, OrtKernelContext*);
  void *InferOutputShapeFn, *GetStartVersion, *GetEndVersion, *GetMayInplace, *ReleaseMayInplace, *GetAliasMap,
      *ReleaseAliasMap;
};
}

namespace ort {

constexpr uint32_t API = 17;  // the first with ParallelFor
constexpr uint32_t CUSTOM_OP = 16;
constexpr int INVALID_ARGUMENT = 2, FLOAT32 = 1, INT8 = 3, REQUIRED = 0, DEFAULT_MEMORY = 0;

enum Function {
  CreateStatus = 0,
  CreateCustomOpDomain = 26,
  CustomOpDomain_Add = 27,
  AddCustomOpDomain = 28,
  GetTensorMutableData = 51,
  GetDimensionsCount = 61,
  GetDimensions = 62,
  GetTensorTypeAndShape = 65,
  KernelInfoGetAttribute_int64 = 86,
  KernelContext_GetInput = 90,
  KernelContext_GetOutput = 91,
  ReleaseTensorTypeAndShapeInfo = 99,
  KernelContext_ParallelFor = 274,
};

template <class Result = OrtStatus*, class... Arguments>
Result call(OrtApi* api, Function function, Arguments... arguments) {
  return reinterpret_cast<Result (*)(Arguments...)>(api[function])(arguments...);
}

}  // namespace ort
