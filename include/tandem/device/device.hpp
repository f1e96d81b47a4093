// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <vector>

#include "tandem/base/concepts.hpp"
#include "tandem/base/device_id.hpp"
#include "tandem/base/env.hpp"
#include "tandem/base/export.hpp"
#include "tandem/base/scalar.hpp"
#include "tandem/base/tensor_view.hpp"
#include "tandem/base/trace.hpp"
#include "tandem/device/attention.hpp"
#include "tandem/device/copy.hpp"
#include "tandem/device/cost_table.hpp"
#include "tandem/device/event.hpp"
#include "tandem/device/fetch.hpp"
#include "tandem/device/gemm.hpp"
#include "tandem/device/mail.hpp"
#include "tandem/device/mailed_exchange.hpp"
#include "tandem/device/meeting.hpp"
#include "tandem/device/push.hpp"
#include "tandem/device/reduce.hpp"
#include "tandem/device/signal.hpp"
#include "tandem/device/stream.hpp"

namespace tandem {

/// Properties of a device whose kernels wait for peers' kernels.
struct Hardware {
  std::array<std::byte, 16> id{};   ///< its UUID: equal on ranks that share the device
  std::int32_t blocks_at_once = 0;  ///< thread blocks of any size that can be resident at the same time
};

/// One rank's device: the small interface on which all schedules are built. All operations that are not documented as
/// blocking are asynchronous and stream-ordered; they allocate nothing, do not block the host and, on CUDA, can be
/// captured in a graph. Copies, reductions, maps and column sums throw InvalidArgument for negative counts and
/// missing operands; all else, such as what operands point to, the higher layers check. Thread-safe. Made by
/// `open_device`; lives until the last object made from it is destroyed.
class TANDEM_API Device : public std::enable_shared_from_this<Device> {
 public:
  virtual ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  [[nodiscard]] DeviceId id() const noexcept { return id_; }
  [[nodiscard]] Trace& trace() noexcept { return trace_; }
  /// "NVIDIA H200, 132 SMs", "host, 2 cores, GEMM by oneDNN", …
  [[nodiscard]] virtual std::string describe() const = 0;
  /// Everything that its speed depends on, including libraries and their versions: equal text means equally fast
  /// devices, so that measurements on one apply to the other.
  [[nodiscard]] virtual std::string model() const = 0;
  [[nodiscard]] virtual CostTable costs() const = 0;
  /// Empty for a device whose kernels never wait for peers.
  [[nodiscard]] virtual Hardware hardware() const { return {}; }

  // Local memory, which peers cannot access. Blocking; throws OutOfMemory.
  [[nodiscard]] virtual void* allocate(std::size_t bytes) = 0;
  /// Queued work may still use the memory. The host frees it once all has run that is queued now; CUDA waits for all
  /// running work, including kernels that wait for a peer: if there may be one, hand the memory's owner to
  /// Team::reclaim instead.
  virtual void deallocate(void* memory) noexcept = 0;
  /// Lets the device read and write this host memory, at the same address, until `unregister_memory`. Whole pages,
  /// which may be shared with other processes. Blocking; throws Unsupported if the device cannot.
  virtual void register_memory(void* memory, std::size_t bytes) = 0;
  virtual void unregister_memory(void* memory) noexcept = 0;
  /// Blocking copies between host and device memory; not ordered with any stream.
  virtual void upload(void* device_memory, const void* host_memory, std::size_t bytes) = 0;
  virtual void download(void* host_memory, const void* device_memory, std::size_t bytes) = 0;
  /// The same for the elements of a dense tensor of this device, in row-major order, as the type that stores its dtype:
  /// float for f32, BFloat16 for bf16, std::int32_t for i32, …; std::uint8_t for all 8-bit dtypes. Throws
  /// InvalidArgument for another tensor, type or number of values.
  template <std::ranges::contiguous_range Values> void upload(const TensorView& to, const Values& values) {
    expect_values("upload to", to, dtype_of<std::ranges::range_value_t<Values>>(), std::ranges::size(values));
    upload(to.data(), std::ranges::data(values), to.bytes());
  }
  template <typename T> [[nodiscard]] std::vector<T> download(const TensorView& from) {
    const auto count = static_cast<std::size_t>(from.numel());
    expect_values("download from", from, dtype_of<T>(), count);
    std::vector<T> values(count);
    download(values.data(), from.data(), from.bytes());
    return values;
  }
  /// Blocking, and not ordered with any stream: sets each element, as `upload` does, which takes as much host memory as
  /// the tensor has. The other `fill`, of bytes, is queued on a stream.
  template <typename T> void fill(const TensorView& tensor, T value) {
    const auto count = static_cast<std::size_t>(tensor.numel());
    expect_values("fill", tensor, dtype_of<T>(), count);
    upload(tensor, std::vector<T>(count, value));
  }

  // Streams and events; `Stream` and `Event` own what these create.
  [[nodiscard]] virtual StreamRef stream_create(StreamPriority priority) = 0;
  virtual void stream_destroy(StreamRef stream) noexcept = 0;
  virtual void stream_synchronize(StreamRef stream) = 0;  ///< blocking
  [[nodiscard]] virtual bool stream_query(StreamRef stream) = 0;
  /// False for a stream of another device. True wherever CUDA cannot tell: before CUDA 12.8, for the default streams,
  /// and for a stream that is being captured.
  [[nodiscard]] virtual bool owns(StreamRef /*stream*/) { return true; }
  /// The unique id of the graph capture in progress on `stream`, which records work instead of running it; 0 if there
  /// is none.
  [[nodiscard]] virtual std::uint64_t stream_capture(StreamRef stream) = 0;
  /// Makes the graph that `stream` is being captured into, and everything instantiated from it, keep `object` alive.
  /// The last reference is dropped on a driver thread, where the device must not be called. Does nothing if the stream
  /// is not being captured.
  virtual void hold_in_graph(StreamRef stream, std::shared_ptr<void> object) = 0;
  [[nodiscard]] virtual void* event_create(Event::Timing timing) = 0;
  virtual void event_destroy(void* event) noexcept = 0;
  virtual void event_record(void* event, StreamRef stream) = 0;
  virtual void event_wait(void* event, StreamRef stream) = 0;
  [[nodiscard]] virtual bool event_query(void* event) = 0;
  virtual void event_synchronize(void* event) = 0;  ///< blocking
  [[nodiscard]] virtual double event_elapsed_ms(void* begin, void* end) = 0;
  /// Whether a `Graph` can be made of this device's work: on CUDA, not on the host. A program for both calls the body
  /// itself where not.
  [[nodiscard]] virtual bool records_graphs() const noexcept { return false; }
  // `Graph` owns what `graph_create` makes. Throws Unsupported unless this `records_graphs`.
  [[nodiscard]] virtual void* graph_create(StreamRef stream, const std::function<void()>& body);
  virtual void graph_destroy(void* graph) noexcept;
  virtual void graph_launch(void* graph, StreamRef stream);
  /// Waits until everything queued on all streams of this device has run. Blocking; throws what synchronizing one of
  /// them would throw; errors of the other streams are left for their synchronization.
  virtual void synchronize() = 0;
  /// `synchronize` for at most `limit`; false if work is still queued then. Exceptions of host functions (`launch`) are
  /// not thrown here but when their stream is synchronized.
  [[nodiscard]] virtual bool synchronize_for(std::chrono::milliseconds limit) = 0;

  // Work.
  /// To or from a peer's tensor, SymmetricTensor::put and get do the same and check what they are given.
  virtual void copy(StreamRef stream, const Copy& copy) = 0;
  /// Does all copies in any order, concurrently if the device can; later work on the stream waits for all of them. CUDA
  /// uses copy engines, except within one GPU for copies of several rows, in graphs, on the legacy stream, and with a
  /// driver before 12.8 or a toolkit before 13.0: those are done by kernels, as `copy` does.
  virtual void copy_batch(StreamRef stream, std::span<const Copy> copies) = 0;
  /// Copies to peers, in this order, each followed by its signal. On the host's emulated link the copies are pipelined,
  /// so that its latency is paid once; elsewhere each begins after the previous one and its signal are done.
  virtual void push(StreamRef stream, std::span<const Push> pushes, WaitControl* control = nullptr);
  /// Takes as long as `bytes`, which concurrent work stores into a peer's memory from now on, take on the host's
  /// emulated link; does not slow that work down. Does nothing without such a link: those stores are ordered before
  /// the signal that follows them.
  virtual void cross_link(StreamRef /*stream*/, std::size_t /*bytes*/) {}
  /// Where ranks share a core, lets others that want it run before work queued from now on: for a schedule that has
  /// queued what its peers wait for and continues with computation. Does nothing on other devices than the host.
  virtual void yield(StreamRef /*stream*/) {}
  /// Starts the work queued on `stream` as soon as possible, even if no thread waits for the stream soon: for work that
  /// should overlap with another stream's. Needed on the host only; other devices always do.
  virtual void flush(StreamRef /*stream*/) {}
  /// Lets the device hold back what this thread queues on `stream` until `uncork` and submit it together, which costs
  /// less than one by one. It still runs in order. Until `uncork`, this thread must not wait for the stream, record an
  /// event on it, or queue work on another stream. See Corked.
  virtual void cork(StreamRef /*stream*/) {}
  virtual void uncork(StreamRef /*stream*/) noexcept {}
  /// Asynchronous and stream-ordered: sets each of `bytes` bytes. The other `fill`, of a tensor's elements, blocks and
  /// is not ordered with any stream.
  virtual void fill(StreamRef stream, void* memory, std::byte value, std::size_t bytes) = 0;
  virtual void reduce(StreamRef stream, const Reduction& reduction) = 0;
  virtual void map(StreamRef stream, const Map& map) = 0;
  virtual void column_sum(StreamRef stream, const ColumnSum& sum) = 0;
  /// Plans a GEMM. Blocking: it loads library code and runs the chosen algorithms once, on CUDA in temporary memory as
  /// large as the largest operand. Throws InvalidArgument, Unsupported or OutOfMemory.
  [[nodiscard]] std::unique_ptr<Gemm> gemm(const GemmSpec& spec) { return gemm(spec, {}); }
  /// Plans a GEMM with these algorithms instead of the default ones, each for one m of `planned_rows`. If a run's
  /// layout or addresses do not allow an algorithm, another that fits is used. Also throws InvalidArgument for an
  /// algorithm that the library does not offer for its m, or whose m is not one of `planned_rows`.
  [[nodiscard]] virtual std::unique_ptr<Gemm> gemm(const GemmSpec& spec, std::span<const GemmAlgorithm> algorithms) = 0;
  /// Whether GEMMs have algorithms to choose from.
  [[nodiscard]] virtual bool has_gemm_algorithms() const noexcept { return false; }
  /// Why there is no attention here: "built without cudnn-frontend", … Empty if there is.
  [[nodiscard]] virtual std::string why_no_attention() const { return "this device has none"; }
  /// Plans an attention. Blocking, as `gemm` is. Throws InvalidArgument for an invalid spec, Unsupported for one that
  /// this device or its library cannot do, with the reason, or OutOfMemory.
  [[nodiscard]] virtual std::unique_ptr<Attention> attention(const AttentionSpec& spec);
  /// Merges a part of an attention, or of its gradients (also on devices without attention).
  virtual void merge(StreamRef stream, const AttentionMerge& merge) = 0;
  /// Runs a host function in stream order. It must not call the device's API, nor hold the last reference to anything
  /// that keeps the device alive. What it throws is rethrown by the stream's synchronization; the stream continues (but
  /// see `signal`).
  virtual void launch(StreamRef stream, std::function<void()> function) = 0;

  // Signals between ranks, at most `max_signals` in a call. All puts of a call, and all its waits, are concurrent.
  /// On the host, if earlier work of the stream has thrown (`launch`, a GEMM without memory): fills `control.failure`
  /// and sets `control.abort` instead, so that no peer takes what that work left for a result. Without `control`, and
  /// on CUDA, signals are put whatever was thrown.
  virtual void signal(StreamRef stream, std::span<const SignalPut> puts, WaitControl* control = nullptr) = 0;
  /// Each wait ends when its count is reached, when `control.abort` is set, when its peer has departed, or at the
  /// deadline. The first to end for one of the last two reasons fills `control.failure`, sets `control.abort` and lets
  /// the stream continue. `control` is in registered memory of `wait_control_bytes`.
  virtual void wait(StreamRef stream, std::span<const SignalWait> waits, WaitControl* control) = 0;

  /// `wait`, then increments the counts for signals that are put later in stream order, marked as `counted`; each word
  /// at most once before its put. For puts after copies that overlap with GEMMs: a GPU's copy engines can release a
  /// count that is already stored, while a kernel that increments it would need an SM that the GEMM leaves free.
  virtual void wait_and_count(StreamRef stream, std::span<const SignalWait> waits, std::span<const SignalPut> puts,
                              WaitControl* control) = 0;
  /// Puts all, then waits for all: `signal` followed by `wait`, in one kernel on CUDA.
  virtual void signal_and_wait(StreamRef stream, std::span<const SignalPut> puts, std::span<const SignalWait> waits,
                               WaitControl* control);

  /// Writes each message into its mailbox and signals it, waits for the peers' messages, and sums or copies them as
  /// `use` says: copies, `signal`, `wait` and `reduce` in one task, for short messages. Throws Unsupported unless
  /// `sends_letters`.
  virtual void mail(StreamRef stream, std::span<const Letter> letters, const MailUse& use, WaitControl* control);
  [[nodiscard]] virtual bool sends_letters() const noexcept { return false; }
  /// A small collective in one kernel. Needs at least one peer and a `length` of at least 1. Throws Unsupported unless
  /// `exchanges_mail`.
  virtual void mailed_exchange(StreamRef stream, const MailedExchange& exchange, WaitControl* control);
  [[nodiscard]] virtual bool exchanges_mail() const noexcept { return false; }

  /// `signal_and_wait` with all peers, `reduce`, and `signal_and_wait` again, in one kernel, for reductions on peers'
  /// memory. Needs a peer; a `count` of 0 still synchronizes. Throws Unsupported unless `meets`.
  virtual void reduce_in_meeting(StreamRef stream, const Reduction& reduction, const MeetingBlocks& meeting,
                                 WaitControl* control);
  /// As `reduce_in_meeting`, but with copies of one row each, at most `max_reduce_operands`, done concurrently.
  virtual void copy_in_meeting(StreamRef stream, std::span<const Copy> copies, const MeetingBlocks& meeting,
                               WaitControl* control);
  /// As `copy_in_meeting`, from one local source, which may be read before the first synchronization with the peers.
  virtual void spread_in_meeting(StreamRef stream, const Spread& spread, const MeetingBlocks& meeting,
                                 WaitControl* control);
  [[nodiscard]] virtual bool meets() const noexcept { return false; }

  // Peers' private memory, read with a single copy if the system allows it; devices without it throw Unsupported.

  /// Reads [address, address + bytes) of another process of this machine. Blocking. Returns the reason if it cannot,
  /// else an empty string.
  [[nodiscard]] virtual std::string read_process(std::int64_t process, const void* address, void* to,
                                                 std::size_t bytes);
  /// Stores in `loan` that peers may read `memory`.
  virtual void lend(StreamRef stream, Loan* loan, const void* memory);
  /// Reads from a peer's loan. If the read fails (the peer's process has ended or its memory is gone), it waits until
  /// the team is aborted, the peer has departed, or a time limit, and then fails like `wait`.
  virtual void fetch(StreamRef stream, const Fetch& fetch, WaitControl* control);

  /// Begins a range of the trace at this point of the stream (see TraceRange); called only while the trace is enabled.
  virtual void trace_begin(StreamRef stream, const char* name, TraceKind kind) = 0;
  /// Ends the innermost range. Called by a destructor: a range that cannot be ended is left out.
  virtual void trace_end(StreamRef stream) noexcept = 0;
  /// Adds all ranges that have ended to `trace()`. Blocking.
  virtual void trace_collect() = 0;

 protected:
  explicit Device(DeviceId id) : id_(id) {}

 private:
  void expect_values(const char* call, const TensorView& tensor, DType stored, std::size_t count) const;

  DeviceId id_;
  Trace trace_;
};
static_assert(Pinned<Device>);

struct DeviceOptions {
  std::optional<LinkOptions> link{};  ///< host: emulate a link
  GemmChoice gemm{};                  ///< host: which GEMM (see Env::gemm)
  int gemm_threads = 0;               ///< host: threads of one GEMM, at most 1024; 0: as many as free cores
  int ranks = 1;                      ///< host: how many (≥ 1) share the machine's cores; for `costs`, too
};

/// How many devices of this type this process can use; 0 if none. Never throws.
[[nodiscard]] TANDEM_API int device_count(DeviceType type) noexcept;
/// Why `device_count` is 0: "built without CUDA", "libcuda.so.1 was not found", … Empty if it is not.
[[nodiscard]] TANDEM_API std::string why_no_device(DeviceType type);
/// Opens a device for one rank. Throws Unsupported with that reason, or InvalidArgument for a bad index or option.
[[nodiscard]] TANDEM_API std::shared_ptr<Device> open_device(DeviceId id, const DeviceOptions& options = {});

}  // namespace tandem
