// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/cuda_gemm.hpp"

#include <algorithm>
#include <cstring>

#include "tandem/base/error.hpp"

#include "base/checked.hpp"
#include "base/format.hpp"
#include "device/cuda/check.hpp"
#include "device/cuda/gemm_tiles.hpp"
#include "device/cuda/native_stream.hpp"
#include "device/gemm_check.hpp"

namespace tandem::cuda {
namespace {

constexpr std::size_t workspace_bytes = std::size_t{32} << 20;  // cuBLAS' recommendation for sm_90
constexpr std::size_t max_known = 4096;
constexpr int best_few = 8;  // how many of the heuristic's algorithms to choose from

cudaDataType_t cuda_type(DType dtype) {
  switch (dtype) {
    case DType::f32: return CUDA_R_32F;
    case DType::f16: return CUDA_R_16F;
    case DType::bf16: return CUDA_R_16BF;
    case DType::f8e4m3: return CUDA_R_8F_E4M3;
    case DType::f8e5m2: return CUDA_R_8F_E5M2;
    default: throw Unsupported(format("a GEMM of {} on CUDA; there is f32, f16, bf16, f8e4m3 and f8e5m2", name(dtype)));
  }
}

bool on_16_bytes(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0; }

/// Whether cuBLASLt answers that it has no algorithm for a GEMM, or that a given one does not fit; not an error.
bool says_no(cublasStatus_t status) {
  return status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE;
}

}  // namespace

CudaGemm::CudaGemm(std::shared_ptr<const Context> context, std::shared_ptr<const BlasHandle> blas,
                   const Properties& gpu, const GemmSpec& spec, std::span<const GemmAlgorithm> algorithms)
    : Gemm(spec),
      context_(std::move(context)),
      blas_(std::move(blas)),
      kernels_(spec, gpu.multiprocessors),
      multiprocessors_(gpu.multiprocessors),
      is_hopper_(gpu.major == 9) {
  static_cast<void>(cuda_type(spec.dtype));
  check_gemm(spec);
  if (spec.leave_sms >= multiprocessors_) {
    throw InvalidArgument(format("a GEMM is to leave {} SMs of a GPU that has {}; it may leave {} at most",
                                 spec.leave_sms, multiprocessors_, multiprocessors_ - 1));
  }
  if (spec.m == 0 || spec.n == 0 || spec.k == 0) return;
  const CurrentContext current(*context_);
  workspace_ = DeviceMemory(workspace_bytes + 2 * scale_pitch());
  choose(algorithms);
}

CudaGemm::~CudaGemm() {
  const CurrentContext current(*context_);
  workspace_ = DeviceMemory();
}

GemmPitches CudaGemm::pitches(std::int64_t m, std::int64_t k, std::int64_t lda) const noexcept {
  const GemmSpec& s = spec();
  const auto pitch = [](std::int64_t given, std::int64_t dense) {
    return given != 0 ? given : std::max<std::int64_t>(dense, 1);
  };
  return {pitch(lda != 0 ? lda : s.lda, s.transpose_a ? m : k), pitch(s.ldb, s.transpose_b ? k : s.n),
          pitch(s.ldd, s.n)};
}

bool CudaGemm::rows_on_16_bytes(const GemmPitches& ld) const noexcept {
  const auto multiple = [](std::int64_t pitch, DType dtype) {
    return static_cast<std::size_t>(pitch) * size_of(dtype) % 16 == 0;
  };
  return multiple(ld.a, spec().dtype) && multiple(ld.b, spec().dtype_of_b()) && multiple(ld.d, spec().out_dtype);
}

GemmPitches CudaGemm::planned_pitches(std::int64_t m, bool aligned) const noexcept {
  GemmPitches ld = pitches(m, spec().k);
  if (!aligned && rows_on_16_bytes(ld)) {
    // Odd ones, so that the algorithm chosen and loaded for the rare unaligned case accepts any address.
    ld = {ld.a | 1, ld.b | 1, ld.d | 1};
  }
  return ld;
}

bool CudaGemm::library_scales() const {
#if CUBLAS_VERSION >= 120900
  return spec().scaling != Scaling::per_row || blas_->library().cublasLtGetVersion() >= 120900;
#else
  return spec().scaling != Scaling::per_row;
#endif
}

CudaGemm::Problem CudaGemm::problem(std::int64_t m, std::int64_t k, const GemmPitches& ld, const Addresses& at) const {
  const CublasLt& lt = blas_->library();
  const GemmSpec& s = spec();
  Problem p{};
  const cublasComputeType_t compute = s.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  lt.check(lt.cublasLtMatmulDescInit_internal(&p.operation, sizeof p.operation, compute, CUDA_R_32F),
           "cublasLtMatmulDescInit");
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
    lt.check(lt.cublasLtMatmulDescSetAttribute(&p.operation, attribute, static_cast<const void*>(&value), sizeof value),
             "cublasLtMatmulDescSetAttribute");
  };
  // A row-major [r, c] matrix is a column-major [c, r] one: an operand that we do not transpose is already op(X)ᵀ.
  const auto layout = [&](cublasLtMatrixLayoutOpaque_t& out, DType dtype, bool transpose, std::int64_t rows,
                          std::int64_t columns, std::int64_t pitch) {
    if (transpose) std::swap(rows, columns);
    lt.check(
        lt.cublasLtMatrixLayoutInit_internal(&out, sizeof out, cuda_type(dtype), static_cast<std::uint64_t>(columns),
                                             static_cast<std::uint64_t>(rows), pitch),
        "cublasLtMatrixLayoutInit");
  };
  set(CUBLASLT_MATMUL_DESC_TRANSA, static_cast<std::int32_t>(s.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N));
  set(CUBLASLT_MATMUL_DESC_TRANSB, static_cast<std::int32_t>(s.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N));
  if (s.leave_sms > 0) set(CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, std::int32_t{multiprocessors_ - s.leave_sms});
  const bool bias = s.bias && fuses_bias();
  std::uint32_t epilogue = bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
  if (fused_activation_) epilogue = bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
  if (at.aux != nullptr) {
    epilogue = bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, at.aux);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, s.n);
  }
  set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
  if (bias) {
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, at.bias);
    set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, static_cast<std::int32_t>(cuda_type(s.out_dtype)));
  }
  if (s.fast_accum) set(CUBLASLT_MATMUL_DESC_FAST_ACCUM, std::int8_t{1});
  if (s.scaling != Scaling::none) {
    set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, at.b_scale);
    set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, at.a_scale);
  }
#if CUBLAS_VERSION >= 120900
  if (s.scaling == Scaling::per_row) {
    set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, std::int32_t{CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F});
    set(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, std::int32_t{CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F});
  }
#endif
  layout(p.b, s.dtype_of_b(), s.transpose_b, k, s.n, ld.b);
  layout(p.a, s.dtype, s.transpose_a, m, k, ld.a);
  layout(p.d, s.out_dtype, false, m, s.n, ld.d);
  return p;
}

CudaGemm::Addresses CudaGemm::trial(const std::byte* scratch, bool aligned) const {
  const auto* const scale = reinterpret_cast<const float*>(scratch);
  return {scratch + (aligned ? 0 : size_of(spec().out_dtype)), fused_auxiliary_ && aligned ? scratch : nullptr, scale,
          scale};
}

std::size_t CudaGemm::scale_pitch() const noexcept {
  if (spec().scaling == Scaling::none) return 0;
  const std::int64_t most = spec().scaling == Scaling::per_row ? std::max(spec().m, spec().n) : 1;
  return round_up(static_cast<std::size_t>(most) * sizeof(float), 16);
}

std::size_t CudaGemm::scratch_bytes() const {
  const GemmSpec& s = spec();
  const auto bytes = [](std::int64_t rows, std::int64_t ld, DType dtype) {
    return static_cast<std::size_t>(rows * ld) * size_of(dtype);
  };
  // All operands share one region: the result is not used. A smaller m may have larger (planned) pitches.
  std::size_t most = scale_pitch();
  for (const std::int64_t m : planned_rows(s.m)) {
    for (const bool aligned : {false, true}) {
      const GemmPitches ld = planned_pitches(m, aligned);
      most = std::max({most, bytes(s.transpose_a ? s.k : m, ld.a, s.dtype),
                       bytes(s.transpose_b ? s.n : s.k, ld.b, s.dtype_of_b()), bytes(m, ld.d, s.out_dtype)});
    }
  }
  return most + 256;  // room for an offset, to try unaligned addresses
}

void CudaGemm::choose(std::span<const GemmAlgorithm> algorithms) {
  const DeviceMemory scratch(scratch_bytes());
  const bool aligned = rows_on_16_bytes(pitches(spec().m, spec().k));
  if (spec().activation == Activation::gelu_tanh && size_of(spec().out_dtype) == 2) {
    bool& fused = spec().auxiliary == Auxiliary::none ? fused_activation_ : fused_auxiliary_;
    fused = spec().auxiliary == Auxiliary::none || (spec().auxiliary == Auxiliary::output && aligned);
    fused = fused && !ask_heuristic(spec().m, aligned, 1, scratch.data()).empty();
  }
  std::size_t named = 0;
  for (const std::int64_t m : planned_rows(spec().m)) {
    add_first(m, aligned, scratch.data());
    for (const GemmAlgorithm& given : algorithms) {
      if (given.m != m) continue;
      add_named(given, aligned, scratch.data());
      ++named;
    }
  }
  if (named != algorithms.size()) {
    throw InvalidArgument(
        format("of {} algorithms for a GEMM {} are for an m that is neither {} nor three quarters of it, nor a half of "
               "these, or a half of that …",
               algorithms.size(), algorithms.size() - named, spec().m));
  }
  if (aligned) add_first(spec().m, false, scratch.data());

  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  const std::unique_ptr<CUstream_st, void (*)(cudaStream_t)> owner(
      stream, [](cudaStream_t s) { ignore(cudaStreamDestroy(s)); });
  check(cudaMemsetAsync(scratch.data(), 0, scratch_bytes(), stream), "cudaMemsetAsync");
  for (const Choice& choice : choices_) {
    std::byte* data = scratch.data() + (choice.aligned ? 0 : size_of(spec().out_dtype));
    Problem p =
        problem(choice.m, spec().k, planned_pitches(choice.m, choice.aligned), trial(scratch.data(), choice.aligned));
    // A run may override beta, and cuBLASLt may use another kernel if C is added.
    for (const float beta : {0.0F, 1.0F}) {
      multiply(p, choice, {.a = data, .b = data, .d = data, .bias = data}, beta, stream);
    }
  }
  check(cudaStreamSynchronize(stream), "the first run of a GEMM");
}

std::vector<cublasLtMatmulAlgo_t> CudaGemm::ask_heuristic(std::int64_t m, bool aligned, int most,
                                                          const std::byte* scratch) const {
  if (!library_scales()) return {};
  const CublasLt& lt = blas_->library();
  cublasLtMatmulPreferenceOpaque_t preference{};
  lt.check(lt.cublasLtMatmulPreferenceInit_internal(&preference, sizeof preference), "cublasLtMatmulPreferenceInit");
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    lt.check(lt.cublasLtMatmulPreferenceSetAttribute(&preference, attribute, &value, sizeof value),
             "cublasLtMatmulPreferenceSetAttribute");
  };
  const auto alignment = [&](DType dtype) { return aligned ? 16U : static_cast<std::uint32_t>(size_of(dtype)); };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{workspace_bytes});
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment(spec().dtype_of_b()));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment(spec().dtype));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment(spec().out_dtype));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment(spec().out_dtype));
  // Split-k partial sums are added in fp32 and in a fixed order, never in 16-bit outputs.
  set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  // The heuristic infers the alignment of the bias and of the auxiliary from their addresses.
  Problem p = problem(m, spec().k, planned_pitches(m, aligned), trial(scratch, aligned));
  std::array<cublasLtMatmulHeuristicResult_t, best_few> results{};
  int found = 0;
  const cublasStatus_t status = lt.cublasLtMatmulAlgoGetHeuristic(blas_->get(), &p.operation, &p.b, &p.a, &p.d, &p.d,
                                                                  &preference, most, results.data(), &found);
  if (says_no(status)) return {};
  lt.check(status, "cublasLtMatmulAlgoGetHeuristic");
  std::vector<cublasLtMatmulAlgo_t> best;
  for (const auto& result : std::span(results).first(static_cast<std::size_t>(found))) {
    if (result.state == CUBLAS_STATUS_SUCCESS && result.workspaceSize <= workspace_bytes) best.push_back(result.algo);
  }
  return best;
}

template <typename T>
T CudaGemm::attribute(const cublasLtMatmulAlgo_t& algorithm, cublasLtMatmulAlgoConfigAttributes_t which,
                      T value) const {
  std::size_t written = 0;
  const cublasStatus_t status =
      blas_->library().cublasLtMatmulAlgoConfigGetAttribute(&algorithm, which, &value, sizeof value, &written);
  return status == CUBLAS_STATUS_SUCCESS ? value : T{0};
}

std::size_t CudaGemm::first_of(std::span<const cublasLtMatmulAlgo_t> best, std::int64_t m) const {
  if (!is_hopper_ || size_of(spec().dtype) != 2 || spec().out_dtype != spec().dtype) return 0;
  std::vector<int> tiles;
  for (const cublasLtMatmulAlgo_t& each : best) {
    const bool whole = attribute(each, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, std::int32_t{0}) <= 1;
    const auto tile = attribute(each, CUBLASLT_ALGO_CONFIG_TILE_ID, std::uint32_t{0});
    tiles.push_back(whole ? static_cast<int>(tile) : 0);
  }
  return best_tile(tiles, spec().n, m, spec().k, multiprocessors_ - spec().leave_sms);
}

std::vector<cublasLtMatmulAlgo_t> CudaGemm::ranked(std::int64_t m, bool aligned, const std::byte* scratch) const {
  std::vector<cublasLtMatmulAlgo_t> best = ask_heuristic(m, aligned, best_few, scratch);
  if (best.empty()) return best;
  const auto first = best.begin() + static_cast<std::ptrdiff_t>(first_of(best, m));
  std::rotate(best.begin(), first, first + 1);
  return best;
}

void CudaGemm::add_first(std::int64_t m, bool aligned, const std::byte* scratch) {
  const std::vector<cublasLtMatmulAlgo_t> best = ask_heuristic(m, aligned, best_few, scratch);
  if (best.empty()) return;
  const std::size_t first = first_of(best, m);
  const bool known = !choices_.empty() && choices_.back().aligned == aligned &&
                     std::memcmp(&choices_.back().algorithm, &best[first], sizeof best[first]) == 0;
  if (!known) choices_.push_back({m, aligned, false, first != 0, best[first]});
}

void CudaGemm::add_named(const GemmAlgorithm& given, bool aligned, const std::byte* scratch) {
  const std::vector<cublasLtMatmulAlgo_t> best = ranked(given.m, aligned, scratch);
  const auto found = std::ranges::find(best, given.name, [this](const auto& each) { return name_of(each); });
  if (found == best.end()) {
    throw InvalidArgument(
        format("cublasLt {} does not offer algorithm '{}' for m = {} of a GEMM of n = {}, k = {}, {} into {}",
               blas_->library().cublasLtGetVersion(), given.name, given.m, spec().n, spec().k, operands_of(spec()),
               name(spec().out_dtype)));
  }
  choices_.push_back({given.m, aligned, true, false, *found});
}

std::string CudaGemm::name_of(const cublasLtMatmulAlgo_t& algorithm) const {
  const auto of = [&](cublasLtMatmulAlgoConfigAttributes_t which, auto type) {
    return attribute(algorithm, which, type);
  };
  return format("algo {} tile {} stages {} split-k {} reduction {} swizzle {} option {} inner {} cluster {}",
                of(CUBLASLT_ALGO_CONFIG_ID, std::int32_t{0}), of(CUBLASLT_ALGO_CONFIG_TILE_ID, std::uint32_t{0}),
                of(CUBLASLT_ALGO_CONFIG_STAGES_ID, std::uint32_t{0}),
                of(CUBLASLT_ALGO_CONFIG_SPLITK_NUM, std::int32_t{0}),
                of(CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, std::uint32_t{0}),
                of(CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, std::uint32_t{0}),
                of(CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, std::uint32_t{0}),
                of(CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID, std::uint16_t{0}),
                of(CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, std::uint16_t{0}));
}

void CudaGemm::multiply(Problem& p, const Choice& choice, const GemmOperands& operands, float beta,
                        cudaStream_t stream) const {
  const CublasLt& lt = blas_->library();
  const float alpha = spec().alpha;
  const void* const c = operands.c != nullptr ? operands.c : operands.d;
  lt.check(lt.cublasLtMatmul(blas_->get(), &p.operation, &alpha, operands.b, &p.b, operands.a, &p.a, &beta, c, &p.d,
                             operands.d, &p.d, &choice.algorithm, workspace_.data(), workspace_bytes, stream),
           "cublasLtMatmul");
}

int CudaGemm::choice_for(Problem& p, std::int64_t m, std::int64_t k, std::int64_t lda, bool aligned) {
  const CublasLt& lt = blas_->library();
  const std::lock_guard lock(mutex_);
  const std::array<std::int64_t, 4> key{m, k, lda, aligned ? 1 : 0};
  if (const auto found = known_.find(key); found != known_.end()) return found->second;
  const auto fits = [&](const Choice& choice) {
    if (choice.aligned && !aligned) return false;
    if (fused_auxiliary_ && choice.aligned != aligned) return false;  // it was loaded with another epilogue
    cublasLtMatmulHeuristicResult_t result{};
    const cublasStatus_t status =
        lt.cublasLtMatmulAlgoCheck(blas_->get(), &p.operation, &p.b, &p.a, &p.d, &p.d, &choice.algorithm, &result);
    if (says_no(status)) return false;
    lt.check(status, "cublasLtMatmulAlgoCheck");
    return result.workspaceSize <= workspace_bytes;
  };
  // The choice that fits and was made for the smallest m not below this run's, preferably for rows aligned as this
  // run's; else any that fits. The list is in descending order of m, so a later match is better.
  int best = -1;
  for (int i = 0; i < static_cast<int>(choices_.size()); ++i) {
    const Choice& choice = choices_[static_cast<std::size_t>(i)];
    if (best != -1) {
      const bool best_is_like_these = choices_[static_cast<std::size_t>(best)].aligned == aligned;
      if (choice.m < m || (best_is_like_these && choice.aligned != aligned)) continue;
    }
    if (fits(choice)) best = i;
  }
  if (known_.size() == max_known) known_.clear();
  known_.emplace(key, best);
  return best;
}

const float* CudaGemm::place_of(const float* scale, std::size_t which) const noexcept {
  if (on_16_bytes(scale)) return scale;  // or null
  return reinterpret_cast<const float*>(workspace_.data() + workspace_bytes + which * scale_pitch());
}

void CudaGemm::copy_scale(const float* scale, const float* place, std::int64_t rows, cudaStream_t stream) const {
  if (place == scale) return;
  const std::int64_t count = spec().scaling == Scaling::per_row ? rows : 1;
  check(cudaMemcpyAsync(const_cast<float*>(place), scale, static_cast<std::size_t>(count) * sizeof(float),
                        cudaMemcpyDeviceToDevice, stream),
        "the scale of a GEMM");
}

void CudaGemm::run(StreamRef stream_ref, const GemmOperands& given) {
  const GemmSpec& s = spec();
  const auto [m, k, beta] = check_gemm_run(s, given);
  if (m == 0 || s.n == 0) return;
  const cudaStream_t stream = native(stream_ref);
  const CurrentContext current(*context_);
  const bool aligned = rows_on_16_bytes(pitches(m, k, given.lda)) && on_16_bytes(given.a) && on_16_bytes(given.b) &&
                       on_16_bytes(given.d) && on_16_bytes(given.c) && (!s.bias || on_16_bytes(given.bias)) &&
                       on_16_bytes(given.aux);
  if (fused_auxiliary_ && aligned && multiply_by_library(given, m, k, beta, true, stream)) return;
  GemmOperands operands = given;
  operands.aux = nullptr;
  // The GEMM's result is the auxiliary output: write it there directly, unless D's contents are added to it.
  if (s.auxiliary == Auxiliary::output && beta == 0.0F) operands.d = given.aux;
  if (!multiply_by_library(operands, m, k, beta, aligned && !fused_auxiliary_, stream)) {
    kernels_.multiply(operands, m, k, pitches(m, k, operands.lda), beta, stream);
  } else {
    const bool bias = s.bias && !fuses_bias();
    const bool activates = kernels_.activation_of_sums() != Activation::none && !fused_activation_;
    if (bias || activates) kernels_.finish(operands.d, bias ? operands.bias : nullptr, m, pitches(m, k).d, stream);
  }
  if (s.auxiliary != Auxiliary::none) kernels_.activate(given.d, operands.d, given.aux, m, stream);
}

bool CudaGemm::multiply_by_library(const GemmOperands& operands, std::int64_t m, std::int64_t k, float beta,
                                   bool aligned, cudaStream_t stream) {
  if (k == 0 || choices_.empty()) return false;
  const bool scaled = spec().scaling != Scaling::none;
  const float* const a_scale = scaled ? place_of(operands.a_scale, 0) : nullptr;
  const float* const b_scale = scaled ? place_of(operands.b_scale, 1) : nullptr;
  Problem p = problem(m, k, pitches(m, k, operands.lda), {operands.bias, operands.aux, a_scale, b_scale});
  const int choice = choice_for(p, m, k, operands.lda, aligned);
  if (choice < 0) return false;
  if (scaled) {
    copy_scale(operands.a_scale, a_scale, m, stream);
    copy_scale(operands.b_scale, b_scale, spec().n, stream);
  }
  multiply(p, choices_[static_cast<std::size_t>(choice)], operands, beta, stream);
  return true;
}

std::vector<std::string> CudaGemm::algorithms(std::int64_t m) const {
  static_cast<void>(Gemm::algorithms(m));  // throws unless 0 ≤ m ≤ spec().m
  if (m == 0 || spec().n == 0 || spec().k == 0) return {};
  const CurrentContext current(*context_);
  const bool aligned = rows_on_16_bytes(pitches(spec().m, spec().k));
  std::vector<std::string> names;
  for (const cublasLtMatmulAlgo_t& each : ranked(m, aligned, workspace_.data())) {
    std::string name = name_of(each);
    if (std::ranges::find(names, name) == names.end()) names.push_back(std::move(name));
  }
  return names;
}

std::string CudaGemm::describe() const {
  if (spec().m == 0 || spec().n == 0 || spec().k == 0) return "nothing to multiply";
  const auto text = [&](bool aligned) -> std::string {
    const Choice* whole = nullptr;  // the choice for the largest m, the last one if several
    for (const Choice& choice : choices_) {
      if (choice.aligned == aligned && (whole == nullptr || choice.m == whole->m)) whole = &choice;
    }
    if (whole == nullptr) return "own tiled kernel (slow)";
    return format("cublasLt {}{} {}{}", blas_->library().cublasLtGetVersion(), spec().tf32 ? " in TF32" : "",
                  name_of(whole->algorithm),
                  whole->by_tiles ? ", whose tiles fit better than what it ranks first" : "");
  };
  const bool aligned = rows_on_16_bytes(pitches(spec().m, spec().k));
  const auto untuned = std::count_if(choices_.begin(), choices_.end(),
                                     [=](const Choice& c) { return c.aligned == aligned && !c.named; });
  std::string out = text(aligned);
  if (untuned > 1) out += format(", {} more for smaller m", untuned - 1);
  std::string tuned;
  for (const Choice& choice : choices_) {
    if (choice.named) tuned += format("{}{}", tuned.empty() ? ", tuned for m = " : ", ", choice.m);
  }
  if (spec().leave_sms > 0) out += format(", on {} of {} SMs", multiprocessors_ - spec().leave_sms, multiprocessors_);
  out += tuned + format(", workspace {} MiB", workspace_bytes >> 20);
  if (aligned) out += format("; rows not on 16 bytes: {}", text(false));
  if (spec().bias && !fuses_bias() && !choices_.empty()) out += "; bias by a kernel of its own";
  if (spec().activation != Activation::none) {
    out +=
        fused_activation_ || fused_auxiliary_ ? "; activation in its epilogue" : "; activation by a kernel of its own";
  }
  return out;
}

}  // namespace tandem::cuda
