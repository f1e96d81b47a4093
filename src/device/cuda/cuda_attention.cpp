// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/cuda_attention.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <initializer_list>
#include <limits>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include "tandem/base/error.hpp"

#include "base/format.hpp"
#include "device/attention_check.hpp"
#include "device/cuda/check.hpp"
#include "device/cuda/cudnn.hpp"
#include "device/cuda/device_memory.hpp"
#include "device/cuda/native_stream.hpp"
#include "device/cuda/single_attention.hpp"

// The functions of the CUDA runtime that cudnn-frontend calls for attention.
#define TANDEM_RUNTIME_FUNCTIONS(X) \
  X(cudaDeviceGetAttribute)         \
  X(cudaGetDevice)                  \
  X(cudaGetErrorString)             \
  X(cudaMemcpyAsync)                \
  X(cudaMemsetAsync)                \
  X(cudaRuntimeGetVersion)

namespace cudnn_frontend {

// The library in which cudnn-frontend looks up cuDNN's functions: set before anything of it is called.
void* cudnn_dlhandle = nullptr;

// It would load the first libcudart.so that it finds, of whichever version, say so on stderr if there are two, and fail
// where there is none. Declared here before it calls them, these functions hide those of the system from it, so that it
// gets the runtime that Tandem is linked with.
namespace detail {

static const char its_runtime = 0;

static void* dlopen(const char* name, int mode) {
  const std::string_view path = name;
  const std::string_view file = path.substr(path.rfind('/') + 1);  // the whole path if there is no folder
  if (!file.starts_with("libcudart")) return ::dlopen(name, mode);
  // Of several versions it would warn. One that the user has named for it is no other runtime either.
  const bool named = std::getenv("CUDNN_FRONTEND_CUDART_LIB_NAME") != nullptr;
  const bool ours = named || file.ends_with(std::to_string(CUDART_VERSION / 1000));
  return ours ? const_cast<char*>(&its_runtime) : nullptr;
}

static void* dlsym(void* library, const char* name) {
  if (library != &its_runtime) return ::dlsym(library, name);
#define TANDEM_RUNTIME_FUNCTION(function) \
  if (std::string_view(name) == #function) return reinterpret_cast<void*>(&::function);
  TANDEM_RUNTIME_FUNCTIONS(TANDEM_RUNTIME_FUNCTION)
#undef TANDEM_RUNTIME_FUNCTION
  return nullptr;  // then cudnn-frontend throws, with the name
}

}  // namespace detail
}  // namespace cudnn_frontend

#include <cudnn_frontend.h>

namespace tandem::cuda {
namespace {

namespace fe = cudnn_frontend;

/// Loads the library, and gives it to cudnn-frontend.
const Cudnn& cudnn() {
  static const Cudnn& given = []() -> const Cudnn& {
    const Cudnn& loaded = Cudnn::get();
    fe::cudnn_dlhandle = loaded.library;
    return loaded;
  }();
  return given;
}

/// Tensors of the graphs. A run gives their addresses in this order.
enum class Operand : std::int64_t { q = 1, k, v, out, lse, grad_out, dq, dk, dv };

std::int64_t uid(Operand operand) noexcept { return static_cast<std::int64_t>(operand); }

using Tensor = fe::graph::Tensor_attributes;

std::string text_of(const AttentionSpec& spec) {
  return format("attention of {}, batch {}, {} queries and {} keys, {} and {} heads of {} and {}, keys from {}",
                name(spec.dtype), spec.batch, spec.queries, spec.keys, spec.heads, spec.kv_heads, spec.head_dim,
                spec.dim_of_values(), tandem::text_of(spec.band));
}

bool has(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

/// Whether cuDNN refuses a graph, instead of having failed.
bool refuses(fe::error_t& status) {
  switch (status.get_code()) {
    case fe::error_code_t::CUDA_API_FAILED:
    case fe::error_code_t::INVALID_CUDA_DEVICE:
    case fe::error_code_t::HANDLE_ERROR: return false;
    case fe::error_code_t::CUDNN_BACKEND_API_FAILED: return has(status.get_message(), "NOT_SUPPORTED");
    default: return true;
  }
}

enum class Phase : std::uint8_t { build, run };

/// Calls cudnn-frontend, and throws what it says if it fails: Unsupported if cuDNN refuses to build a graph,
/// OutOfMemory or DeviceError.
template <typename Call>
void call_frontend(const char* what, Phase phase, const AttentionSpec& spec, const Call& call) {
  const auto message = [&](const std::string& said) {
    return format("{} of {} by cuDNN {}: {}", what, text_of(spec), cudnn().version(), said);
  };
  fe::error_t status;
  try {
    status = call();
  } catch (const std::runtime_error& error) {  // a function that it does not find
    throw DeviceError(message(error.what()));
  }
  if (status.is_good()) return;
  if (has(status.get_message(), "ALLOCATION_FAILED")) throw OutOfMemory(message(status.get_message()));
  if (phase == Phase::build && refuses(status)) throw Unsupported(message(status.get_message()));
  throw DeviceError(message(status.get_message()));
}

/// A tensor of ours, [tokens, batch, heads, dim], as cuDNN numbers its dimensions.
void shape(Tensor& tensor, const AttentionSpec& spec, std::int64_t tokens, std::int64_t heads, std::int64_t dim) {
  tensor.set_dim({spec.batch, heads, tokens, dim}).set_stride({heads * dim, dim, spec.batch * heads * dim, 1});
}

void shape_lse(Tensor& tensor, const AttentionSpec& spec) {
  tensor.set_dim({spec.batch, spec.heads, spec.queries, 1})
      .set_stride({spec.heads * spec.queries, spec.queries, 1, 1})
      .set_data_type(fe::DataType_t::FLOAT);
}

/// The band, without bounds that exclude no key.
AttentionBand needed_band(const AttentionSpec& spec) {
  AttentionBand band = spec.band;
  if (band.left && *band.left >= spec.queries - 1) band.left.reset();
  if (band.right && *band.right >= spec.keys - 1) band.right.reset();
  return band;
}

template <typename Attributes> Attributes attributes_of(const AttentionSpec& spec) {
  Attributes attributes;
  attributes.set_attn_scale(spec.scale_of_scores());
  attributes.set_diagonal_alignment(fe::DiagonalAlignment_t::TOP_LEFT);
  const AttentionBand band = needed_band(spec);
  if (band.left) attributes.set_diagonal_band_left_bound(static_cast<int>(*band.left + 1));  // it counts the diagonal
  // It takes a left bound only with a right one.
  if (band.right) attributes.set_diagonal_band_right_bound(static_cast<int>(*band.right));
  if (band.left && !band.right) attributes.set_diagonal_band_right_bound(static_cast<int>(spec.keys));
  return attributes;
}

std::shared_ptr<Tensor> input(fe::graph::Graph& graph, const AttentionSpec& spec, Operand operand, std::int64_t tokens,
                              std::int64_t heads, std::int64_t dim) {
  Tensor tensor;
  shape(tensor, spec, tokens, heads, dim);
  return graph.tensor(tensor.set_uid(uid(operand)));
}

using Graph = std::unique_ptr<fe::graph::Graph>;

Graph empty_graph(DType dtype) {
  auto graph = std::make_unique<fe::graph::Graph>();
  graph->set_io_data_type(dtype == f16 ? fe::DataType_t::HALF : fe::DataType_t::BFLOAT16)
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  // The attention outlives graphs of its runs, so these need no reference to what it owns.
  graph->set_cuda_graph_retention(fe::CudaGraphRetention_t::NONE);
  return graph;
}

Graph forward_graph(const AttentionSpec& s) {
  Graph graph = empty_graph(s.dtype);
  const auto [out_tensor, lse_tensor] =
      graph->sdpa(input(*graph, s, Operand::q, s.queries, s.heads, s.head_dim),
                  input(*graph, s, Operand::k, s.keys, s.kv_heads, s.head_dim),
                  input(*graph, s, Operand::v, s.keys, s.kv_heads, s.dim_of_values()),
                  attributes_of<fe::graph::SDPA_attributes>(s).set_generate_stats(true));
  out_tensor->set_output(true).set_uid(uid(Operand::out));
  shape(*out_tensor, s, s.queries, s.heads, s.dim_of_values());
  lse_tensor->set_output(true).set_uid(uid(Operand::lse));
  shape_lse(*lse_tensor, s);
  return graph;
}

Graph backward_graph(const AttentionSpec& s) {
  Graph graph = empty_graph(s.dtype);
  Tensor lse_tensor;
  shape_lse(lse_tensor, s);
  const auto gradients = graph->sdpa_backward(
      input(*graph, s, Operand::q, s.queries, s.heads, s.head_dim),
      input(*graph, s, Operand::k, s.keys, s.kv_heads, s.head_dim),
      input(*graph, s, Operand::v, s.keys, s.kv_heads, s.dim_of_values()),
      input(*graph, s, Operand::out, s.queries, s.heads, s.dim_of_values()),
      input(*graph, s, Operand::grad_out, s.queries, s.heads, s.dim_of_values()),
      graph->tensor(lse_tensor.set_uid(uid(Operand::lse))),
      attributes_of<fe::graph::SDPA_backward_attributes>(s).set_deterministic_algorithm(s.deterministic));
  gradients[0]->set_output(true).set_uid(uid(Operand::dq));
  shape(*gradients[0], s, s.queries, s.heads, s.head_dim);
  gradients[1]->set_output(true).set_uid(uid(Operand::dk));
  shape(*gradients[1], s, s.keys, s.kv_heads, s.head_dim);
  gradients[2]->set_output(true).set_uid(uid(Operand::dv));
  shape(*gradients[2], s, s.keys, s.kv_heads, s.dim_of_values());
  return graph;
}

void expect_supported(const AttentionSpec& spec) {
  if (spec.dtype != f16 && spec.dtype != bf16) {
    throw Unsupported(format("{} on CUDA; cuDNN's attention is of f16 and bf16", text_of(spec)));
  }
  if (spec.head_dim % 8 != 0 || spec.dim_of_values() % 8 != 0) {
    throw Unsupported(format("{} on CUDA; cuDNN's attention takes multiples of 8", text_of(spec)));
  }
  if (std::max(spec.queries, spec.keys) >= std::numeric_limits<int>::max()) {
    throw Unsupported(format("{} on CUDA; cuDNN counts them in 32 bits", text_of(spec)));
  }
}

void expect_aligned(std::initializer_list<std::pair<const void*, const char*>> operands, std::size_t bytes) {
  for (const auto& [operand, name] : operands) {
    if (reinterpret_cast<std::uintptr_t>(operand) % bytes != 0) {
      throw InvalidArgument(
          format("attention on CUDA with {} at {}; its address must be a multiple of {} bytes", name, operand, bytes));
    }
  }
}

constexpr std::size_t operand_alignment = 16;

class Handle {
 public:
  Handle() { cudnn().check(cudnn().cudnnCreate(&handle_), "cudnnCreate"); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() { static_cast<void>(cudnn().cudnnDestroy(handle_)); }

  [[nodiscard]] cudnnHandle_t get() const noexcept { return handle_; }

 private:
  cudnnHandle_t handle_ = nullptr;
};

class CudaAttention final : public Attention {
 public:
  /// With that context current.
  CudaAttention(std::shared_ptr<const Context> context, const AttentionSpec& spec);
  ~CudaAttention() override;

  void forward(StreamRef stream, const AttentionOperands& operands) override;
  void backward(StreamRef stream, const AttentionGradientOperands& operands) override;
  [[nodiscard]] std::size_t alignment() const noexcept override { return operand_alignment; }
  [[nodiscard]] std::string describe() const override;

 private:
  [[nodiscard]] Graph build(Graph graph, const char* what);
  void run_once();
  /// `operands` in the order of Operand.
  template <std::size_t n>
  void execute(const Graph& graph, const char* what, std::array<const void*, n> operands, cudaStream_t stream);

  std::shared_ptr<const Context> context_;
  std::optional<Handle> handle_;
  Graph forward_;   // null if there is nothing to do
  Graph backward_;  // null without gradients, too
  std::size_t workspace_bytes_ = 0;
  DeviceMemory workspace_;
  std::mutex mutex_;  // held from the choice of the handle's stream to the end of what is queued on it
};

CudaAttention::CudaAttention(std::shared_ptr<const Context> context, const AttentionSpec& spec)
    : Attention(spec), context_(std::move(context)) {
  if (spec.batch == 0 || spec.queries == 0) return;
  handle_.emplace();
  forward_ = build(forward_graph(spec), "forward");
  if (spec.gradients) backward_ = build(backward_graph(spec), "backward");
  try {
    workspace_ = DeviceMemory(workspace_bytes_);
    run_once();
  } catch (const OutOfMemory& error) {
    throw OutOfMemory(
        format("{} by cuDNN, with {} bytes of workspace: {}", text_of(spec), workspace_bytes_, error.what()));
  }
}

CudaAttention::~CudaAttention() {
  const CurrentContext current(*context_);
  forward_.reset();
  backward_.reset();
  handle_.reset();
  workspace_ = DeviceMemory();
}

Graph CudaAttention::build(Graph graph, const char* what) {
  std::int64_t bytes = 0;
  call_frontend(what, Phase::build, spec(), [&] { return graph->build(handle_->get(), {fe::HeurMode_t::A}); });
  call_frontend(what, Phase::build, spec(), [&] { return graph->get_workspace_size(bytes); });
  workspace_bytes_ = std::max(workspace_bytes_, static_cast<std::size_t>(bytes));
  return graph;
}

void CudaAttention::run_once() {
  const AttentionSpec& s = spec();
  const std::int64_t widest = std::max(s.head_dim, s.dim_of_values());
  const std::int64_t most = std::max(s.queries * s.heads, s.keys * s.kv_heads) * s.batch * widest;
  const std::size_t bytes = std::max(static_cast<std::size_t>(most) * size_of(s.dtype),
                                     static_cast<std::size_t>(s.batch * s.heads * s.queries) * sizeof(float));
  const DeviceMemory scratch(bytes);
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  const std::unique_ptr<CUstream_st, void (*)(cudaStream_t)> owner(
      stream, [](cudaStream_t created) { ignore(cudaStreamDestroy(created)); });
  check(cudaMemsetAsync(scratch.data(), 0, bytes, stream), "cudaMemsetAsync");
  // All operands share one region: the results are not used.
  void* const any = scratch.data();
  execute<5>(forward_, "forward", {any, any, any, any, any}, stream);
  if (backward_ != nullptr) execute<9>(backward_, "backward", {any, any, any, any, any, any, any, any, any}, stream);
  check(cudaStreamSynchronize(stream), "the first run of an attention");
}

template <std::size_t n>
void CudaAttention::execute(const Graph& graph, const char* what, std::array<const void*, n> operands,
                            cudaStream_t stream) {
  std::array<void*, n> addresses{};
  std::ranges::transform(operands, addresses.begin(), [](const void* operand) { return const_cast<void*>(operand); });
  const std::lock_guard lock(mutex_);
  cudnn().check(cudnn().cudnnSetStream(handle_->get(), stream), "cudnnSetStream");
  call_frontend(what, Phase::run, spec(), [&] {
    return graph->execute(handle_->get(), addresses.data(), static_cast<int>(n), workspace_.data());
  });
}

void CudaAttention::forward(StreamRef stream, const AttentionOperands& given) {
  if (!check_forward(spec(), given)) return;
  expect_aligned({{given.q, "q"}, {given.k, "k"}, {given.v, "v"}, {given.out, "out"}}, operand_alignment);
  expect_aligned({{given.lse, "lse"}}, alignof(float));
  const CurrentContext current(*context_);
  execute<5>(forward_, "forward", {given.q, given.k, given.v, given.out, given.lse}, native(stream));
}

void CudaAttention::backward(StreamRef stream_ref, const AttentionGradientOperands& given) {
  if (!check_backward(spec(), given)) return;
  const cudaStream_t stream = native(stream_ref);
  const CurrentContext current(*context_);
  if (backward_ == nullptr) {  // keys that no query sees
    const auto rows = static_cast<std::size_t>(spec().keys * spec().batch * spec().kv_heads) * size_of(spec().dtype);
    check(cudaMemsetAsync(given.dk, 0, rows * static_cast<std::size_t>(spec().head_dim), stream), "cudaMemsetAsync");
    check(cudaMemsetAsync(given.dv, 0, rows * static_cast<std::size_t>(spec().dim_of_values()), stream),
          "cudaMemsetAsync");
    return;
  }
  expect_aligned({{given.grad_out, "grad_out"},
                  {given.q, "q"},
                  {given.k, "k"},
                  {given.v, "v"},
                  {given.out, "out"},
                  {given.dq, "dq"},
                  {given.dk, "dk"},
                  {given.dv, "dv"}},
                 operand_alignment);
  expect_aligned({{given.lse, "lse"}}, alignof(float));
  execute<9>(backward_, "backward",
             {given.q, given.k, given.v, given.out, given.lse, given.grad_out, given.dq, given.dk, given.dv}, stream);
}

std::string CudaAttention::describe() const {
  if (forward_ == nullptr) return "nothing to attend to";
  return format("cuDNN {} (frontend {}.{}.{}), workspace {} MiB{}", cudnn().version(), CUDNN_FRONTEND_MAJOR_VERSION,
                CUDNN_FRONTEND_MINOR_VERSION, CUDNN_FRONTEND_PATCH_VERSION, (workspace_bytes_ + (1U << 20) - 1) >> 20,
                spec().gradients && spec().deterministic ? ", deterministic" : "");
}

}  // namespace

const std::string& why_no_attention() { return Cudnn::why_not_loaded(); }

std::unique_ptr<Attention> make_attention(std::shared_ptr<const Context> context, const AttentionSpec& spec) {
  check_attention(spec);
  expect_supported(spec);
  if (SingleAttention::is_for(spec)) return std::make_unique<SingleAttention>(std::move(context), spec);
  const CurrentContext current(*context);
  return std::make_unique<CudaAttention>(std::move(context), spec);
}

}  // namespace tandem::cuda
