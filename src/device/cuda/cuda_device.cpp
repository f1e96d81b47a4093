// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/cuda_device.hpp"

#include <algorithm>
#include <chrono>
#include <cuda_runtime_api.h>
#include <exception>
#include <future>
#include <limits>
#include <mutex>
#include <utility>

#include "tandem/base/error.hpp"

#include "base/env_check.hpp"
#include "base/format.hpp"
#include "base/signals_blocked.hpp"
#include "device/attention_check.hpp"
#include "device/cuda/blas_handle.hpp"
#include "device/cuda/capture.hpp"
#include "device/cuda/check.hpp"
#include "device/cuda/context.hpp"
#include "device/cuda/copies.hpp"
#include "device/cuda/cublaslt.hpp"
#include "device/cuda/cuda_attention.hpp"
#include "device/cuda/cuda_gemm.hpp"
#include "device/cuda/device_memory.hpp"
#include "device/cuda/driver.hpp"
#include "device/cuda/first_use.hpp"
#include "device/cuda/graphs.hpp"
#include "device/cuda/host_calls.hpp"
#include "device/cuda/kernel_arguments.hpp"
#include "device/cuda/kernels/attention_merge.hpp"
#include "device/cuda/kernels/mailed_exchange.hpp"
#include "device/cuda/kernels/map.hpp"
#include "device/cuda/kernels/reduce.hpp"
#include "device/cuda/kernels/signal.hpp"
#include "device/cuda/native_stream.hpp"
#include "device/cuda/properties.hpp"
#include "device/cuda/stream_trace.hpp"
#include "device/hopper_costs.hpp"
#include "device/work_check.hpp"

namespace tandem {
namespace {

using namespace cuda;  // tandem::cuda, this file's own helpers

// Enough thread blocks to keep all load units busy; more would only queue.
constexpr int blocks_per_multiprocessor = 8;

std::string version_text(int version) { return format("{}.{}", version / 1000, version % 1000 / 10); }

cudaEvent_t as_event(void* event) noexcept { return static_cast<cudaEvent_t>(event); }

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(int index);
  ~CudaDevice() override;

  [[nodiscard]] std::string describe() const override;
  [[nodiscard]] std::string model() const override;
  [[nodiscard]] CostTable costs() const override {
    CostTable costs = hopper_costs(properties_.multiprocessors, properties_.memory_bytes_per_second);
    if (properties_.major != 9) costs.of_another = "Hopper GPUs over NVLink";
    return costs;
  }
  [[nodiscard]] Hardware hardware() const override {
    return {.id = properties_.uuid, .blocks_at_once = properties_.multiprocessors};
  }

  [[nodiscard]] void* allocate(std::size_t bytes) override;
  void deallocate(void* memory) noexcept override;
  void register_memory(void* memory, std::size_t bytes) override;
  void unregister_memory(void* memory) noexcept override;
  void upload(void* device_memory, const void* host_memory, std::size_t bytes) override;
  void download(void* host_memory, const void* device_memory, std::size_t bytes) override;

  [[nodiscard]] StreamRef stream_create(StreamPriority priority) override;
  void stream_destroy(StreamRef stream) noexcept override;
  void stream_synchronize(StreamRef stream) override;
  [[nodiscard]] bool stream_query(StreamRef stream) override;
  [[nodiscard]] bool owns(StreamRef stream) override;
  [[nodiscard]] std::uint64_t stream_capture(StreamRef stream) override;
  void hold_in_graph(StreamRef stream, std::shared_ptr<void> object) override;
  [[nodiscard]] void* event_create(Event::Timing timing) override;
  void event_destroy(void* event) noexcept override;
  void event_record(void* event, StreamRef stream) override;
  void event_wait(void* event, StreamRef stream) override;
  [[nodiscard]] bool event_query(void* event) override;
  void event_synchronize(void* event) override;
  [[nodiscard]] double event_elapsed_ms(void* begin, void* end) override;
  [[nodiscard]] bool records_graphs() const noexcept override { return true; }
  [[nodiscard]] void* graph_create(StreamRef stream, const std::function<void()>& body) override;
  void graph_destroy(void* graph) noexcept override;
  void graph_launch(void* graph, StreamRef stream) override;
  void synchronize() override;
  [[nodiscard]] bool synchronize_for(std::chrono::milliseconds limit) override;

  void copy(StreamRef stream, const Copy& copy) override;
  void copy_batch(StreamRef stream, std::span<const Copy> copies) override;
  void fill(StreamRef stream, void* memory, std::byte value, std::size_t bytes) override;
  void reduce(StreamRef stream, const Reduction& reduction) override;
  void map(StreamRef stream, const Map& map) override;
  void column_sum(StreamRef stream, const ColumnSum& sum) override;
  [[nodiscard]] std::unique_ptr<Gemm> gemm(const GemmSpec& spec, std::span<const GemmAlgorithm> algorithms) override;
  [[nodiscard]] bool has_gemm_algorithms() const noexcept override { return true; }
  [[nodiscard]] std::string why_no_attention() const override { return cuda::why_no_attention(); }
  [[nodiscard]] std::unique_ptr<Attention> attention(const AttentionSpec& spec) override {
    return make_attention(context_, spec);
  }
  void merge(StreamRef stream, const AttentionMerge& merge) override;
  void launch(StreamRef stream, std::function<void()> function) override;

  void signal(StreamRef stream, std::span<const SignalPut> puts, WaitControl* control) override;
  void wait(StreamRef stream, std::span<const SignalWait> waits, WaitControl* control) override;
  void wait_and_count(StreamRef stream, std::span<const SignalWait> waits, std::span<const SignalPut> puts,
                      WaitControl* control) override;
  void signal_and_wait(StreamRef stream, std::span<const SignalPut> puts, std::span<const SignalWait> waits,
                       WaitControl* control) override;
  void mailed_exchange(StreamRef stream, const MailedExchange& exchange, WaitControl* control) override;
  [[nodiscard]] bool exchanges_mail() const noexcept override { return true; }
  void reduce_in_meeting(StreamRef stream, const Reduction& reduction, const MeetingBlocks& meeting,
                         WaitControl* control) override;
  void copy_in_meeting(StreamRef stream, std::span<const Copy> copies, const MeetingBlocks& meeting,
                       WaitControl* control) override;
  void spread_in_meeting(StreamRef stream, const Spread& spread, const MeetingBlocks& meeting,
                         WaitControl* control) override;
  [[nodiscard]] bool meets() const noexcept override { return true; }

  void trace_begin(StreamRef stream, const char* name, TraceKind kind) override;
  void trace_end(StreamRef stream) noexcept override;
  void trace_collect() override;

 private:
  /// `signal` for puts that are all `counted`; at most `max_signals`.
  void send_counts(StreamRef stream, std::span<const SignalPut> puts);
  [[nodiscard]] int max_blocks() const noexcept { return properties_.multiprocessors * blocks_per_multiprocessor; }
  void copy_blocking(void* dst, const void* src, std::size_t bytes);

  Properties properties_;
  std::shared_ptr<const Context> context_;
  cudaStream_t transfers_ = nullptr;  // for blocking copies; the legacy stream would wait for other streams
  std::unique_ptr<StreamTrace> trace_;
  HostCalls host_calls_;
  std::mutex blas_mutex_;
  std::shared_ptr<const BlasHandle> blas_;  // created by the first GEMM
  std::mutex idle_mutex_;
  // The device synchronization in progress, if any. On the heap, so that a forked child can leak it.
  std::unique_ptr<std::future<cudaError_t>> idle_ = std::make_unique<std::future<cudaError_t>>();
};

CudaDevice::CudaDevice(int index)
    : Device({DeviceType::cuda, index}),
      properties_(query_properties(index)),
      context_(std::make_shared<const Context>(index)) {
  if (!properties_.unified_addressing) {
    throw Unsupported(format("{}, cuda:{}, has no unified addressing", properties_.name, index));
  }
  const CurrentContext current(*context_);
  load_kernels(properties_, index);
  check(cudaStreamCreateWithFlags(&transfers_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  try {
    trace_ = std::make_unique<StreamTrace>(index);
    use_once(*this, StreamRef(transfers_));
  } catch (...) {
    trace_.reset();
    ignore(cudaStreamDestroy(transfers_));
    throw;
  }
}

CudaDevice::~CudaDevice() {
  if (Driver::is_forked()) {
    // The waiting thread exists only in the parent: joining it here would never end.
    [[maybe_unused]] const auto* const never_joined = idle_.release();
  } else if (idle_->valid()) {
    idle_->wait();
  }
  const CurrentContext current(*context_);
  blas_.reset();
  trace_.reset();
  ignore(cudaStreamDestroy(transfers_));
}

std::string CudaDevice::describe() const {
  return format("{}, {} SMs, {:.1f} GiB, cuda:{}, driver {}, runtime {}", properties_.name, properties_.multiprocessors,
                static_cast<double>(properties_.memory_bytes) / 0x1p30, id().index,
                version_text(properties_.driver_version), version_text(properties_.runtime_version));
}

std::string CudaDevice::model() const {
  return format("{}, {} SMs, driver {}, runtime {}, cuBLASLt {}", properties_.name, properties_.multiprocessors,
                version_text(properties_.driver_version), version_text(properties_.runtime_version),
                CublasLt::get().cublasLtGetVersion());
}

void* CudaDevice::allocate(std::size_t bytes) {
  const CurrentContext current(*context_);
  return bytes == 0 ? nullptr : allocate_device_memory(bytes);
}

void CudaDevice::deallocate(void* memory) noexcept {
  const CurrentContext current(*context_);
  free_device_memory(memory);
}

void CudaDevice::register_memory(void* memory, std::size_t bytes) {
  if (bytes == 0) return;
  const CurrentContext current(*context_);
  // Portable: other devices of this process may use the memory too.
  check(cudaHostRegister(memory, bytes, cudaHostRegisterMapped | cudaHostRegisterPortable), "cudaHostRegister");
  void* address = nullptr;
  const cudaError_t result = cudaHostGetDevicePointer(&address, memory, 0);
  if (result == cudaSuccess && address == memory) return;
  ignore(result);
  unregister_memory(memory);
  throw Unsupported(format("cuda:{} cannot use host memory at the host's address", id().index));
}

void CudaDevice::unregister_memory(void* memory) noexcept {
  const CurrentContext current(*context_);
  ignore(cudaHostUnregister(memory));
}

void CudaDevice::copy_blocking(void* dst, const void* src, std::size_t bytes) {
  if (bytes == 0) return;
  const CurrentContext current(*context_);
  check(cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDefault, transfers_), "cudaMemcpyAsync");
  check(cudaStreamSynchronize(transfers_), "cudaStreamSynchronize after cudaMemcpyAsync");
}

void CudaDevice::upload(void* device_memory, const void* host_memory, std::size_t bytes) {
  copy_blocking(device_memory, host_memory, bytes);
}

void CudaDevice::download(void* host_memory, const void* device_memory, std::size_t bytes) {
  copy_blocking(host_memory, device_memory, bytes);
}

StreamRef CudaDevice::stream_create(StreamPriority priority) {
  const CurrentContext current(*context_);
  int least = 0;
  int greatest = 0;
  check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange");
  cudaStream_t stream = nullptr;
  // Non-blocking: no implicit ordering with the legacy default stream.
  check(
      cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, priority == StreamPriority::high ? greatest : least),
      "cudaStreamCreateWithPriority");
  return {stream};
}

void CudaDevice::stream_destroy(StreamRef stream) noexcept {
  const CurrentContext current(*context_);
  const auto handle = static_cast<cudaStream_t>(stream.native_handle());
  host_calls_.forget(handle);
  trace_->forget(handle);
  ignore(cudaStreamDestroy(handle));
}

void CudaDevice::stream_synchronize(StreamRef stream) {
  const CurrentContext current(*context_);
  check(cudaStreamSynchronize(native(stream)), "cudaStreamSynchronize");
  host_calls_.rethrow(native(stream));
}

bool CudaDevice::owns([[maybe_unused]] StreamRef stream) {
#if CUDART_VERSION >= 12080
  const cudaStream_t handle = native(stream);
  // These belong to whichever device is current.
  if (handle == nullptr || handle == cudaStreamLegacy || handle == cudaStreamPerThread) return true;
  int device = 0;
  const CurrentContext current(*context_);
  const cudaError_t result = cudaStreamGetDevice(handle, &device);
  if (result == cudaErrorStreamCaptureUnsupported) {
    ignore(result);
    return true;
  }
  check(result, "cudaStreamGetDevice");
  return device == id().index;
#else
  return true;
#endif
}

std::uint64_t CudaDevice::stream_capture(StreamRef stream) {
  const CurrentContext current(*context_);
  return capture_of(native(stream)).number;
}

void CudaDevice::hold_in_graph(StreamRef stream, std::shared_ptr<void> object) {
  const CurrentContext current(*context_);
  const Capture capture = capture_of(native(stream));
  if (capture.graph == nullptr) return;
  give_to_graph(capture.graph, std::make_unique<std::shared_ptr<void>>(std::move(object)));
}

bool CudaDevice::stream_query(StreamRef stream) {
  const CurrentContext current(*context_);
  return ready(cudaStreamQuery(native(stream)), "cudaStreamQuery");
}

void* CudaDevice::event_create(Event::Timing timing) {
  const CurrentContext current(*context_);
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, timing == Event::Timing::on ? cudaEventDefault : cudaEventDisableTiming),
        "cudaEventCreateWithFlags");
  return event;
}

void CudaDevice::event_destroy(void* event) noexcept {
  const CurrentContext current(*context_);
  ignore(cudaEventDestroy(as_event(event)));
}

void CudaDevice::event_record(void* event, StreamRef stream) {
  const CurrentContext current(*context_);
  check(cudaEventRecord(as_event(event), native(stream)), "cudaEventRecord");
}

void CudaDevice::event_wait(void* event, StreamRef stream) {
  const CurrentContext current(*context_);
  check(cudaStreamWaitEvent(native(stream), as_event(event), 0), "cudaStreamWaitEvent");
}

bool CudaDevice::event_query(void* event) {
  const CurrentContext current(*context_);
  return ready(cudaEventQuery(as_event(event)), "cudaEventQuery");
}

void CudaDevice::event_synchronize(void* event) {
  const CurrentContext current(*context_);
  check(cudaEventSynchronize(as_event(event)), "cudaEventSynchronize");
}

double CudaDevice::event_elapsed_ms(void* begin, void* end) {
  const CurrentContext current(*context_);
  float milliseconds = 0;
  const cudaError_t result = cudaEventElapsedTime(&milliseconds, as_event(begin), as_event(end));
  if (result == cudaErrorInvalidResourceHandle || result == cudaErrorNotReady) {
    ignore(result);
    throw InvalidArgument(
        "elapsed time between events of which one was made with Timing::off, or has not been recorded, or not been "
        "passed");
  }
  check(result, "cudaEventElapsedTime");
  return static_cast<double>(milliseconds);
}

void* CudaDevice::graph_create(StreamRef stream, const std::function<void()>& body) {
  const CurrentContext current(*context_);
  return capture_graph(native(stream), body);
}

void CudaDevice::graph_destroy(void* graph) noexcept {
  const CurrentContext current(*context_);
  ignore(cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(graph)));
}

void CudaDevice::graph_launch(void* graph, StreamRef stream) {
  const CurrentContext current(*context_);
  check(cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph), native(stream)), "cudaGraphLaunch");
}

void CudaDevice::synchronize() {
  const CurrentContext current(*context_);
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  host_calls_.rethrow_any();
}

// CUDA has no device synchronization with a timeout, so a separate thread waits. A wait that an earlier call began does
// not cover work queued since, so another one follows it.
bool CudaDevice::synchronize_for(std::chrono::milliseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + std::min(limit, longest_timeout);
  const std::lock_guard lock(idle_mutex_);
  if (idle_->valid() && idle_->wait_until(deadline) != std::future_status::ready) return false;
  {
    const SignalsBlocked for_the_thread;
    *idle_ = std::async(std::launch::async, [this] {
      const CurrentContext current(*context_);
      return cudaDeviceSynchronize();
    });
  }
  if (idle_->wait_until(deadline) != std::future_status::ready) return false;
  check(idle_->get(), "cudaDeviceSynchronize");
  return true;
}

void CudaDevice::copy(StreamRef stream, const Copy& copy) {
  check_copy(copy);
  const CurrentContext current(*context_);
  enqueue_copy(native(stream), copy, properties_);
}

void CudaDevice::copy_batch(StreamRef stream, std::span<const Copy> copies) {
  for (const Copy& copy : copies) check_copy(copy);
  const CurrentContext current(*context_);
  enqueue_copies(native(stream), copies, properties_);
}

void CudaDevice::fill(StreamRef stream, void* memory, std::byte value, std::size_t bytes) {
  if (bytes == 0) return;
  const CurrentContext current(*context_);
  check(cudaMemsetAsync(memory, std::to_integer<int>(value), bytes, native(stream)), "cudaMemsetAsync");
}

void CudaDevice::reduce(StreamRef stream, const Reduction& reduction) {
  const ReduceArguments arguments = arguments_of(reduction);
  if (reduction.count == 0) return;
  // One thread per pack: fewer threads in a loop, if not all are resident, would access distant places in turns. But if
  // a kernel also stores to peers, too many threads at once reduce its loads and stores to a third of the link's rate.
  int blocks = reduction.most_blocks;
  if (blocks == 0) blocks = std::numeric_limits<int>::max();
  if (reduction.peer_destinations > 0) {
    blocks = std::min(blocks, std::max(properties_.multiprocessors / reduction.peer_destinations, 1));
  }
  const CurrentContext current(*context_);
  check(launch_reduce(arguments, reduction.dtype, reduction.out_dtype, blocks, native(stream)), "a reduction");
}

void CudaDevice::map(StreamRef stream, const Map& map) {
  check_map(map);
  if (!can_map(map.dtype, map.stored())) {
    throw Unsupported(
        format("a map of {} into {} on CUDA; there is f32, f16 and bf16, and casts between these and f8e4m3 or f8e5m2",
               name(map.dtype), name(map.stored())));
  }
  if (map.count == 0) return;
  const CurrentContext current(*context_);
  check(launch_map(map, max_blocks(), native(stream)), "an elementwise kernel");
}

void CudaDevice::column_sum(StreamRef stream, const ColumnSum& sum) {
  check_column_sum(sum);
  if (!can_sum_columns(sum.dtype)) {
    throw Unsupported(format("a column sum of {} on CUDA; there is f32, f16 and bf16", name(sum.dtype)));
  }
  if (sum.columns == 0) return;
  const CurrentContext current(*context_);
  check(launch_column_sum(sum, native(stream)), "a column sum");
}

std::unique_ptr<Gemm> CudaDevice::gemm(const GemmSpec& spec, std::span<const GemmAlgorithm> algorithms) {
  const CurrentContext current(*context_);
  std::shared_ptr<const BlasHandle> blas;
  {
    const std::lock_guard lock(blas_mutex_);
    if (blas_ == nullptr) blas_ = std::make_shared<const BlasHandle>(context_);
    blas = blas_;
  }
  return std::make_unique<CudaGemm>(context_, std::move(blas), properties_, spec, algorithms);
}

void CudaDevice::merge(StreamRef stream, const AttentionMerge& merge) {
  if (!check_merge(merge)) return;
  const CurrentContext current(*context_);
  check(launch_merge(merge, native(stream)), "a merge");
}

void CudaDevice::launch(StreamRef stream, std::function<void()> function) {
  if (!function) throw InvalidArgument("no function was given to launch");
  const CurrentContext current(*context_);
  host_calls_.launch(native(stream), std::move(function));
}

void CudaDevice::signal(StreamRef stream, std::span<const SignalPut> puts, WaitControl* /*control*/) {
  if (puts.empty()) return;
  const SignalArguments arguments = arguments_of(puts);
  if (std::ranges::all_of(puts, &SignalPut::counted)) return send_counts(stream, puts);
  const CurrentContext current(*context_);
  check(launch_signal(arguments, native(stream)), "a signal");
}

// By copy engines. Like a kernel (see kernels/signal.cu), a copy begins after all earlier work of its stream, such as
// copies to a peer or GEMMs that store there, is complete and performed at the memory that it wrote, the peer's
// included; and eight aligned bytes are written at once. A kernel would have to wait for a concurrent GEMM to end,
// since GEMMs often fill all multiprocessors to the last kilobyte of shared memory.
void CudaDevice::send_counts(StreamRef stream, std::span<const SignalPut> puts) {
  std::array<Copy, max_signals> counts;
  std::ranges::transform(puts, counts.begin(), [](const SignalPut& put) {
    return Copy{.dst = &put.theirs->value, .src = &put.mine->put, .bytes = sizeof put.mine->put, .path = Path::link};
  });
  copy_batch(stream, std::span(counts).first(puts.size()));
}

void CudaDevice::wait(StreamRef stream, std::span<const SignalWait> waits, WaitControl* control) {
  if (waits.empty()) return;
  const CurrentContext current(*context_);
  check(launch_wait(arguments_of(waits, control), native(stream)), "a wait");
}

void CudaDevice::wait_and_count(StreamRef stream, std::span<const SignalWait> waits, std::span<const SignalPut> puts,
                                WaitControl* control) {
  if (waits.empty() && puts.empty()) return;
  const CurrentContext current(*context_);
  check(launch_wait_and_count({arguments_of(puts), arguments_of(waits, control)}, native(stream)), "a wait");
}

void CudaDevice::signal_and_wait(StreamRef stream, std::span<const SignalPut> puts, std::span<const SignalWait> waits,
                                 WaitControl* control) {
  if (puts.empty() && waits.empty()) return;
  const CurrentContext current(*context_);
  check(launch_signal_and_wait({arguments_of(puts), arguments_of(waits, control)}, native(stream)),
        "a signal and a wait");
}

void CudaDevice::mailed_exchange(StreamRef stream, const MailedExchange& exchange, WaitControl* control) {
  const auto lanes = static_cast<int>((exchange.length + exchange.slice - 1) / exchange.slice);
  const CurrentContext current(*context_);
  const cudaError_t result =
      exchange.form == MailedForm::parts
          ? launch_mailed_exchange(parts_arguments_of(exchange, control), exchange.dtype, lanes, native(stream))
          : launch_mailed_exchange(arguments_of(exchange, control), exchange.form, exchange.dtype, lanes,
                                   native(stream));
  check(result, "an exchange by mail");
}

void CudaDevice::reduce_in_meeting(StreamRef stream, const Reduction& reduction, const MeetingBlocks& meeting,
                                   WaitControl* control) {
  const ReduceInMeetingArguments arguments = arguments_of(reduction, meeting, control);
  const CurrentContext current(*context_);
  check(launch_reduce_in_meeting(arguments, reduction.dtype, meeting.blocks, native(stream)),
        "a reduction in a meeting");
}

void CudaDevice::copy_in_meeting(StreamRef stream, std::span<const Copy> copies, const MeetingBlocks& meeting,
                                 WaitControl* control) {
  const CopyInMeetingArguments arguments = arguments_of(copies, meeting, control);
  const CurrentContext current(*context_);
  check(launch_copy_in_meeting(arguments, meeting.blocks, native(stream)), "copies in a meeting");
}

void CudaDevice::spread_in_meeting(StreamRef stream, const Spread& spread, const MeetingBlocks& meeting,
                                   WaitControl* control) {
  const SpreadInMeetingArguments arguments = arguments_of(spread, meeting, control);
  const CurrentContext current(*context_);
  check(launch_spread_in_meeting(arguments, meeting.blocks, native(stream)), "copies to several places in a meeting");
}

void CudaDevice::trace_begin(StreamRef stream, const char* name, TraceKind kind) {
  const CurrentContext current(*context_);
  trace_->begin(trace(), native(stream), name, kind);
}

void CudaDevice::trace_end(StreamRef stream) noexcept {
  try {
    const CurrentContext current(*context_);
    trace_->end(static_cast<cudaStream_t>(stream.native_handle()));
  } catch (const std::exception&) {  // the trace lacks this range
  }
}

void CudaDevice::trace_collect() {
  const CurrentContext current(*context_);
  trace_->collect(trace());
}

}  // namespace

std::shared_ptr<Device> open_cuda_device(int index) {
  if (const std::string& why = Driver::why_not_started(); !why.empty()) throw Unsupported("no CUDA device: " + why);
  int count = 0;
  check(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  if (index < 0 || index >= count) {
    throw InvalidArgument(format("CUDA device {}; this process sees {}, numbered from 0", index, count));
  }
  return std::make_shared<CudaDevice>(index);
}

}  // namespace tandem
