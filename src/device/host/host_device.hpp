// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "tandem/device/device.hpp"

#include "base/home_process.hpp"
#include "device/host/deferred_frees.hpp"
#include "device/host/emulated_link.hpp"
#include "device/host/host_crew.hpp"
#include "device/host/host_gemm.hpp"
#include "device/host/host_workers.hpp"

namespace tandem {

/// The CPU as a device: streams are queues that worker threads, or threads that wait for them, drain in order.
class HostDevice final : public Device {
 public:
  /// Throws InvalidArgument for an unknown GEMM library, Unsupported for one that is not found.
  explicit HostDevice(const DeviceOptions& options);
  ~HostDevice() override;

  [[nodiscard]] std::string describe() const override;
  [[nodiscard]] std::string model() const override;
  [[nodiscard]] CostTable costs() const override;

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
  [[nodiscard]] std::uint64_t stream_capture(StreamRef /*stream*/) override { return 0; }
  void hold_in_graph(StreamRef /*stream*/, std::shared_ptr<void> /*object*/) override {}
  [[nodiscard]] void* event_create(Event::Timing timing) override;
  void event_destroy(void* event) noexcept override;
  void event_record(void* event, StreamRef stream) override;
  void event_wait(void* event, StreamRef stream) override;
  [[nodiscard]] bool event_query(void* event) override;
  void event_synchronize(void* event) override;
  [[nodiscard]] double event_elapsed_ms(void* begin, void* end) override;
  void synchronize() override;
  [[nodiscard]] bool synchronize_for(std::chrono::milliseconds limit) override;

  void copy(StreamRef stream, const Copy& copy) override;
  void copy_batch(StreamRef stream, std::span<const Copy> copies) override;
  void push(StreamRef stream, std::span<const Push> pushes, WaitControl* control) override;
  void cross_link(StreamRef stream, std::size_t bytes) override;
  void yield(StreamRef stream) override;
  void flush(StreamRef stream) override;
  void cork(StreamRef stream) override;
  void uncork(StreamRef stream) noexcept override;
  void fill(StreamRef stream, void* memory, std::byte value, std::size_t bytes) override;
  void reduce(StreamRef stream, const Reduction& reduction) override;
  void map(StreamRef stream, const Map& map) override;
  void column_sum(StreamRef stream, const ColumnSum& sum) override;
  [[nodiscard]] std::unique_ptr<Gemm> gemm(const GemmSpec& spec, std::span<const GemmAlgorithm> algorithms) override;
  [[nodiscard]] std::string why_no_attention() const override { return {}; }
  [[nodiscard]] std::unique_ptr<Attention> attention(const AttentionSpec& spec) override;
  void merge(StreamRef stream, const AttentionMerge& merge) override;
  void launch(StreamRef stream, std::function<void()> function) override;

  [[nodiscard]] bool owns(StreamRef stream) override { return HostStream::is_of(*workers_, stream); }
  void signal(StreamRef stream, std::span<const SignalPut> puts, WaitControl* control) override;
  void wait(StreamRef stream, std::span<const SignalWait> waits, WaitControl* control) override;
  void wait_and_count(StreamRef stream, std::span<const SignalWait> waits, std::span<const SignalPut> puts,
                      WaitControl* control) override;
  void mail(StreamRef stream, std::span<const Letter> letters, const MailUse& use, WaitControl* control) override;
  [[nodiscard]] bool sends_letters() const noexcept override { return true; }
  [[nodiscard]] std::string read_process(std::int64_t process, const void* address, void* to,
                                         std::size_t bytes) override;
  void lend(StreamRef stream, Loan* loan, const void* memory) override;
  void fetch(StreamRef stream, const Fetch& fetch, WaitControl* control) override;

  void trace_begin(StreamRef stream, const char* name, TraceKind kind) override;
  void trace_end(StreamRef stream) noexcept override;
  void trace_collect() override;

 private:
  [[nodiscard]] HostStream& host_stream(StreamRef stream) const {
    refuse_forked_child();
    return HostStream::from(stream, *workers_);
  }
  /// A forked child has copies of the queued work, which is its parent's to run.
  void refuse_forked_child() const;
  /// The transfer of a task that is queued now; one that waits for nothing if there is no link, or no bytes.
  [[nodiscard]] EmulatedLink::Transfer transfer(StreamRef stream, std::size_t bytes) {
    return link_ && bytes != 0 ? link_->transfer(host_stream(stream).pace, bytes) : EmulatedLink::Transfer();
  }
  /// The text that `describe` and `model` share, with `cores` as the number of cores.
  [[nodiscard]] std::string setting(const std::string& cores) const;

  const GemmChoice gemm_choice_;
  const HostGemmLibrary gemm_library_;
  const double ranks_for_each_core_;  // at least 1
  std::optional<EmulatedLink> link_;
  std::atomic<std::uint64_t> streams_made_{0};
  const HomeProcess home_;
  std::unique_ptr<HostCrew> crew_;
  std::unique_ptr<HostWorkers> workers_ = std::make_unique<HostWorkers>();
  std::unique_ptr<DeferredFrees> deferred_frees_ = std::make_unique<DeferredFrees>();
};

}  // namespace tandem
