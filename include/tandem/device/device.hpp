// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "tandem/base/device_id.hpp"
#include "tandem/base/env.hpp"
#include "tandem/base/export.hpp"
#include "tandem/base/trace.hpp"
#include "tandem/device/copy.hpp"
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

/// Constants of the cost model for each kind of device (docs/performance/cost_model.md says where they are from).
struct CostTable {
  double gemm_flops_per_second = 0;       ///< of a large product of 16-bit operands
  double gemm_f32_flops_per_second = 0;   ///< of f32 operands
  double gemm_tf32_flops_per_second = 0;  ///< of f32 operands that may be rounded (GemmSpec::tf32)
  double gemm_launch_seconds = 0;         ///< fixed cost of one more product
  int gemm_tile = 0;                      ///< a product is made in tiles of so many rows and columns; 0: of any size
  int gemm_tiles_at_once = 0;             ///< which run in waves of so many
  double hop_seconds = 0;                 ///< from what one stream did to what waits for it on another
  double link_bytes_per_second = 0;       ///< one rank to one peer, large copies
  double link_latency_seconds = 0;        ///< fixed cost of one copy and its signal
  double push_gap_seconds = 0;            ///< from one push to the next (Device::push), beside its bytes' time
  double takes_beside_pushes_cost = 0;    ///< of the time in which copies from peers and to them cross together
  double load_bytes_per_second = 0;       ///< what a kernel sums, from its peers, where kernels reach them
  double store_bytes_per_second = 0;      ///< a product's results into a peer's memory
  double memory_bytes_per_second = 0;     ///< read plus write, by a reduction
  double weights_bytes_per_second = 0;    ///< how fast a product reads weights that no cache holds
  double cache_bytes = 0;                 ///< weights of less stay in a cache from one product to the next
  double packed_rows = 0;                 ///< products in pieces of up to so many rows share weights that are packed
  double packing_bytes_per_second = 0;    ///< once, at this pace, and then cost no product anything; f32 alone
  bool weights_hold_up_compute = true;    ///< else a product reads its weights while it multiplies
  double stores_hold_up_compute = 0;      ///< what part of its stores' way lengthens a product; 0: it waits for none
  double finer_groups_may_cost = 0.01;    ///< of the time: finer ones lose less where ranks are not in step
  double slowest_rank = 1.1;              ///< the same products of a rank may take so many times another rank's time
  double overlap_must_gain = 0;           ///< of the sequence's time, and for products straight to peers of copies'
  bool kernels_reach_peers = false;       ///< what follows a product is one kernel's, at the link's pace
  bool copies_cost_compute = false;       ///< copies run on the cores that compute: there is nothing to hide behind
};

/// What a device is made of, where kernels wait for peers' kernels.
struct Hardware {
  std::array<std::byte, 16> id{};   ///< its UUID: the same for ranks that share it
  std::int32_t blocks_at_once = 0;  ///< of a kernel, however large they are
};

/// One rank's device: the small interface that every schedule is written on. All operations but those named as
/// blocking are asynchronous on the stream they are given, in its order; they allocate nothing, wait for nothing on the
/// host and, on CUDA, can be captured in a graph. Arguments are checked by the callers on the floors above.
/// Safe from several threads at once. Made by `open_device`; lives until the last that was made from it is gone.
class TANDEM_API Device : public std::enable_shared_from_this<Device> {
 public:
  virtual ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  [[nodiscard]] DeviceId id() const noexcept { return id_; }
  [[nodiscard]] Trace& trace() noexcept { return trace_; }
  /// "NVIDIA H200, 132 SMs", "host, 2 cores, GEMM by oneDNN", …
  [[nodiscard]] virtual std::string describe() const = 0;
  /// What its speed depends on, libraries and their versions included: the same text for devices that are as fast as
  /// each other. What was measured on one holds for those.
  [[nodiscard]] virtual std::string model() const = 0;
  [[nodiscard]] virtual CostTable costs() const = 0;
  /// Nothing where no kernel waits for peers.
  [[nodiscard]] virtual Hardware hardware() const { return {}; }

  // Local memory, not reachable by peers. Blocking; throws OutOfMemory.
  [[nodiscard]] virtual void* allocate(std::size_t bytes) = 0;
  /// Work that is queued must not use it any more. On CUDA this waits for all that runs there, so also for a kernel
  /// that waits for a peer: while there may be one, give what owns the memory to Team::reclaim.
  virtual void deallocate(void* memory) noexcept = 0;
  /// Lets the device read and write this memory of the host's, at its own address, until `unregister_memory`. Whole
  /// pages; they may be shared with other processes. Blocking; throws Unsupported where the device cannot.
  virtual void register_memory(void* memory, std::size_t bytes) = 0;
  virtual void unregister_memory(void* memory) noexcept = 0;
  /// Blocking copies between the host's memory and the device's; ordered with no stream.
  virtual void upload(void* device_memory, const void* host_memory, std::size_t bytes) = 0;
  virtual void download(void* host_memory, const void* device_memory, std::size_t bytes) = 0;

  // Streams and events; `Stream` and `Event` own what these make.
  [[nodiscard]] virtual StreamRef stream_create(StreamPriority priority) = 0;
  virtual void stream_destroy(StreamRef stream) noexcept = 0;
  virtual void stream_synchronize(StreamRef stream) = 0;  ///< blocking
  [[nodiscard]] virtual bool stream_query(StreamRef stream) = 0;
  /// False for a stream of another device, as far as that can be asked: since CUDA 12.8, not of the default streams,
  /// nor of one that is captured.
  [[nodiscard]] virtual bool owns(StreamRef /*stream*/) { return true; }
  /// Which capture records what is queued on `stream` into a graph instead of running it: each has a number of its own;
  /// 0: none does, it runs.
  [[nodiscard]] virtual std::uint64_t stream_capture(StreamRef stream) = 0;
  /// Lets the graph that `stream` is being captured into, and what is made from it, hold `object` as long as they live.
  /// The last of them lets go on a thread of the driver's, which must not call the device. Nothing if it is not
  /// captured.
  virtual void hold_in_graph(StreamRef stream, std::shared_ptr<void> object) = 0;
  [[nodiscard]] virtual void* event_create(Event::Timing timing) = 0;
  virtual void event_destroy(void* event) noexcept = 0;
  virtual void event_record(void* event, StreamRef stream) = 0;
  virtual void event_hold(void* event, StreamRef stream) = 0;
  [[nodiscard]] virtual bool event_query(void* event) = 0;
  virtual void event_synchronize(void* event) = 0;  ///< blocking
  [[nodiscard]] virtual double event_elapsed_ms(void* begin, void* end) = 0;
  // Graphs; `Graph` owns what `graph_create` makes. Unsupported where streams cannot be captured.
  [[nodiscard]] virtual void* graph_create(StreamRef stream, const std::function<void()>& body);
  virtual void graph_destroy(void* graph) noexcept;
  virtual void graph_launch(void* graph, StreamRef stream);
  /// Waits until everything queued on all streams of this device has run. Blocking; throws what synchronising one of
  /// them would, and leaves the others' for them.
  virtual void synchronize() = 0;
  /// The same for at most `limit`: false if something is still queued then. What functions of the host's threw stays
  /// for who synchronises their stream.
  [[nodiscard]] virtual bool synchronize_for(std::chrono::milliseconds limit) = 0;

  // Work.
  virtual void copy(StreamRef stream, const Copy& copy) = 0;
  /// All of them in any order, at once where the device can; the next thing on the stream comes after all. On CUDA by
  /// copy engines; but within one GPU a copy of several rows, a graph, the legacy stream, and drivers before 12.8 or a
  /// toolkit before 13.0 copy by kernels, and so does `copy`.
  virtual void copy_batch(StreamRef stream, std::span<const Copy> copies) = 0;
  /// Copies to peers, each with a signal when it has arrived, in this order. Over a link on which several can be on
  /// their way they follow each other at once, so that its latency counts once; elsewhere each begins when the one
  /// before has arrived.
  virtual void push(StreamRef stream, std::span<const Push> pushes);
  /// Ends when `bytes`, stored by other work from now on into a peer's memory, have crossed the host's emulated link.
  /// That link has room for all of it, so the other work is not held up. Elsewhere there is nothing to wait for: such
  /// stores are in order with the signal that follows them.
  virtual void cross_link(StreamRef /*stream*/, std::size_t /*bytes*/) {}
  /// Where ranks share a core, those that wait for it have their turn before what is queued from now on: for a schedule
  /// that has queued what its peers wait for, and goes on to compute. Elsewhere nothing.
  virtual void yield(StreamRef /*stream*/) {}
  /// What is queued on `stream` begins as soon as it can, also if no thread waits for the stream soon: for work that is
  /// to run beside another stream's. Elsewhere than on the host it always does.
  virtual void flush(StreamRef /*stream*/) {}
  /// Lets the device hold back what this thread queues on `stream` from here to `uncork`, to hand it over at once,
  /// which costs less than one by one. Each ends before the next begins all the same. Until then this thread neither
  /// waits for the stream, records an event on it, nor queues on another one. See Corked.
  virtual void cork(StreamRef /*stream*/) {}
  virtual void uncork(StreamRef /*stream*/) noexcept {}
  virtual void fill(StreamRef stream, void* memory, std::byte value, std::size_t bytes) = 0;
  virtual void reduce(StreamRef stream, const Reduction& reduction) = 0;
  virtual void map(StreamRef stream, const Map& map) = 0;
  virtual void column_sum(StreamRef stream, const ColumnSum& sum) = 0;
  /// Plans a product. Blocking (loads library code, and runs what it chose once, on CUDA in memory as large as the
  /// largest operand, which it gives back); throws InvalidArgument, Unsupported or OutOfMemory.
  [[nodiscard]] std::unique_ptr<Gemm> gemm(const GemmSpec& spec) { return gemm(spec, {}); }
  /// The same with these algorithms in place of what else would run, each for one of `planned_rows`' m. Where a run's
  /// layout or addresses do not allow one of them, what fits of the others runs. Throws InvalidArgument where the
  /// library does not offer one for its m.
  [[nodiscard]] virtual std::unique_ptr<Gemm> gemm(const GemmSpec& spec, std::span<const GemmAlgorithm> algorithms) = 0;
  /// False where products have no algorithms to choose from.
  [[nodiscard]] virtual bool has_gemm_algorithms() const noexcept { return false; }
  /// Runs a function of the host's in the stream's order. It must not call the device's API, nor be the last to hold
  /// anything that keeps the device alive.
  virtual void launch(StreamRef stream, std::function<void()> function) = 0;

  // Signals between ranks. At most `max_signals` in a call; all puts at once, all waits together.
  virtual void signal(StreamRef stream, std::span<const SignalPut> puts) = 0;
  /// Each wait ends when its count is reached, when `control.abort` is set, when its peer has departed, or at the
  /// deadline; the first to end for one of the last two fills `control.failure`, sets `control.abort` and lets the
  /// stream go on. `control` lies in registered memory, of `wait_control_bytes`.
  virtual void wait(StreamRef stream, std::span<const SignalWait> waits, WaitControl* control) = 0;

  /// `wait`, and the counts of signals that follow later, in the order of streams: who puts those says that they are
  /// `counted`. Each word once until then. For puts behind copies, beside products: a GPU's copy engines release a
  /// count that is there already, where a kernel that counts would have to find a place among a product's.
  virtual void wait_and_count(StreamRef stream, std::span<const SignalWait> waits, std::span<const SignalPut> puts,
                              WaitControl* control) = 0;
  /// Puts all, then waits for all: what `signal` and `wait` do one after the other, in one step where the device can.
  virtual void signal_and_wait(StreamRef stream, std::span<const SignalPut> puts, std::span<const SignalWait> waits,
                               WaitControl* control);

  /// Writes each message into its mailbox and signals it, waits for all that come back, and makes of them what `use`
  /// says: what copies, `signal`, `wait` and `reduce` do, in one step, for short messages. Only where `sends_letters`,
  /// else Unsupported.
  virtual void mail(StreamRef stream, std::span<const Letter> letters, const MailUse& use, WaitControl* control);
  [[nodiscard]] virtual bool sends_letters() const noexcept { return false; }
  /// A small collective in one step. There is a peer, and `length` is 1 at least. Only where `exchanges_mail`, else
  /// Unsupported.
  virtual void mailed_exchange(StreamRef stream, const MailedExchange& exchange, WaitControl* control);
  [[nodiscard]] virtual bool exchanges_mail() const noexcept { return false; }

  /// `signal_and_wait` with all peers, `reduce`, and `signal_and_wait` again, in one step, for what ranks do on each
  /// other's memory. There is a peer; a `count` of 0 meets all the same. Only where it `meets`, else Unsupported.
  virtual void reduce_in_meeting(StreamRef stream, const Reduction& reduction, const MeetingBlocks& meeting,
                                 WaitControl* control);
  /// The same with copies, at most `max_reduce_operands`, all at once; each is one row.
  virtual void copy_in_meeting(StreamRef stream, std::span<const Copy> copies, const MeetingBlocks& meeting,
                               WaitControl* control);
  /// The same with what this rank holds, to at most so many places. Its own memory may be read before they have met.
  virtual void spread_in_meeting(StreamRef stream, const Spread& spread, const MeetingBlocks& meeting,
                                 WaitControl* control);
  [[nodiscard]] virtual bool meets() const noexcept { return false; }

  // Peers' private memory, read in one copy where the system allows it; a device that never does takes none of this.

  /// Reads [address, address + bytes) of another process of this machine. Blocking. Gives why it cannot, empty if it
  /// could.
  [[nodiscard]] virtual std::string read_process(std::int64_t process, const void* address, void* to,
                                                 std::size_t bytes);
  /// Writes into `loan` that `memory` is lent.
  virtual void lend(StreamRef stream, Loan* loan, const void* memory);
  /// A read that fails, since the peer's process has ended or its memory is gone, waits like `wait` for the news that
  /// follows, an abort or that the peer has departed, then fails like one.
  virtual void fetch(StreamRef stream, const Fetch& fetch, WaitControl* control);

  /// Marks the stream's present point for the trace (see TraceRange); called only while the trace is enabled.
  virtual void trace_begin(StreamRef stream, const char* name, TraceKind kind) = 0;
  /// A destructor's: a range that cannot be ended is left out.
  virtual void trace_end(StreamRef stream) noexcept = 0;
  /// Makes every range that has ended visible in `trace()`. Blocking.
  virtual void trace_collect() = 0;

 protected:
  explicit Device(DeviceId id) : id_(id) {}

 private:
  DeviceId id_;
  Trace trace_;
};

struct DeviceOptions {
  std::optional<LinkOptions> link{};  ///< host: emulate a link
  std::string gemm = "auto";          ///< host: which GEMM (see Env::gemm)
  int gemm_threads = 0;               ///< host: threads of one product (see Env::gemm_threads); 0: what cores are free
  int ranks = 1;                      ///< host: ranks that share the machine's cores; `costs` reckons with it
};

/// How many devices of this type this process can use; 0 if none. Never throws.
[[nodiscard]] TANDEM_API int device_count(DeviceType type) noexcept;
/// Why `device_count` says 0: "built without CUDA", "libcuda.so.1 was not found", … Empty if it does not.
[[nodiscard]] TANDEM_API std::string why_no_device(DeviceType type);
/// Opens a device for one rank. Throws Unsupported with that reason, or InvalidArgument for an index out of range.
[[nodiscard]] TANDEM_API std::shared_ptr<Device> open_device(DeviceId id, const DeviceOptions& options = {});

}  // namespace tandem
