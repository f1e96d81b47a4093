// SPDX-License-Identifier: Apache-2.0
#include "device/host/host_device.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <new>
#include <sched.h>
#include <sys/utsname.h>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <utility>

#include "tandem/base/error.hpp"

#include "base/env_check.hpp"
#include "base/format.hpp"
#include "device/attention_check.hpp"
#include "device/host/core_offer.hpp"
#include "device/host/host_attention.hpp"
#include "device/host/host_copy.hpp"
#include "device/host/host_elementwise.hpp"
#include "device/host/host_event.hpp"
#include "device/host/host_fetch.hpp"
#include "device/host/host_mail.hpp"
#include "device/host/host_memory.hpp"
#include "device/host/host_signal.hpp"
#include "device/host/host_stream.hpp"
#include "device/work_check.hpp"

namespace tandem {

namespace {

// Work that takes a good part of a millisecond calls a worker at once. Shorter work is left to the next thread that
// synchronizes, or to the pacemaker: a worker that wakes only to find its stream drained costs small collectives more
// than their work.
constexpr std::size_t heavy_bytes = std::size_t{4} << 20;
constexpr std::int64_t heavy_elements = 256 * 1024;

// A GEMM's gain from each additional thread, measured with 2 to 32: two CPUs often share one physical core.
constexpr double further_thread = 0.6;

HostEvent& host_event(void* event) noexcept { return *static_cast<HostEvent*>(event); }

TaskWeight weight_of(std::size_t bytes) noexcept {
  return bytes >= heavy_bytes ? TaskWeight::heavy : TaskWeight::light;
}

/// How many CPUs this process may use; `all` if the system does not tell.
long usable_cores(long all) noexcept {
  cpu_set_t allowed;
  return ::sched_getaffinity(0, sizeof(allowed), &allowed) == 0 ? CPU_COUNT(&allowed) : all;
}

/// How many threads of a rank share a GEMM. With several ranks, each leaves one core to communication, if it has more
/// than one.
int gemm_threads(const DeviceOptions& options) noexcept {
  if (options.gemm_threads > 0) return options.gemm_threads;
  const long all = ::sysconf(_SC_NPROCESSORS_ONLN);
  const long share = std::min(all / std::max(options.ranks, 1), usable_cores(all));
  return static_cast<int>(std::max(1L, options.ranks > 1 ? share - 1 : share));
}

std::size_t bytes_of(const Copy& copy) noexcept { return copy.bytes * copy.rows; }

/// "Intel(R) Xeon(R) CPU @ 2.60GHz", or the kernel's name of the architecture if it does not name the processor.
std::string processor_name() {
  std::ifstream processors("/proc/cpuinfo");
  for (std::string line; std::getline(processors, line);) {
    const std::size_t value = line.find(": ");
    if (line.starts_with("model name") && value != std::string::npos) return line.substr(value + 2);
  }
  utsname system{};
  return ::uname(&system) == 0 ? system.machine : "host";
}

}  // namespace

HostDevice::HostDevice(const DeviceOptions& options)
    : Device(DeviceId{DeviceType::host, 0}),
      gemm_choice_(options.gemm),
      gemm_library_(choose_gemm_library(options.gemm)),
      ranks_for_each_core_(
          std::max(1.0, static_cast<double>(options.ranks) / static_cast<double>(::sysconf(_SC_NPROCESSORS_ONLN)))),
      crew_(std::make_unique<HostCrew>(gemm_threads(options))) {
  if (options.link) link_.emplace(*options.link);
}

void HostDevice::refuse_forked_child() const {
  if (!home_.is_left()) return;
  throw InvalidArgument("a host device was used in a process that its owner forked; such a process has no streams");
}

HostDevice::~HostDevice() {
  if (home_.is_left()) {
    // A forked child has none of its parent's threads, and locks that they held or slept on are never released.
    [[maybe_unused]] const HostWorkers* const workers = workers_.release();
    [[maybe_unused]] const HostCrew* const crew = crew_.release();
    [[maybe_unused]] const DeferredFrees* const frees = deferred_frees_.release();
    return;
  }
  // Destroyed streams may still have queued work; it ends, since each wait in it has a deadline.
  for (const HostStreamPtr& stream : workers_->streams()) stream->finish(stream->ticket());
}

std::string HostDevice::describe() const {
  const long all = ::sysconf(_SC_NPROCESSORS_ONLN);
  const long usable = usable_cores(all);
  const std::string refusal = workers_->refusal();
  return format("host, {}{}", setting(usable < all ? format("{} of {}", usable, all) : format("{}", all)),
                refusal.empty() ? "" : format(", short of threads: {}", refusal));
}

// Names all of the machine's cores: `tandem run` binds each rank to its share of them, other launchers do not.
std::string HostDevice::model() const {
  return format("{}, {}", processor_name(), setting(format("{}", ::sysconf(_SC_NPROCESSORS_ONLN))));
}

std::string HostDevice::setting(const std::string& cores) const {
  std::string text =
      format("{} cores, {}, GEMM by {}{}", cores, host_vector_isa(), describe_gemm_library(gemm_library_, gemm_choice_),
             crew_->size() > 1 ? format(" on {} threads", crew_->size()) : std::string());
  if (link_) {
    text += format(", emulated link of {} us and {} GB/s", static_cast<double>(link_->options().latency.count()) * 1e-3,
                   link_->options().bytes_per_second * 1e-9);
  }
  return text;
}

CostTable HostDevice::costs() const {
  // Constants, not measured when a device opens, and by the machine's cores, not by those that this rank may use: all
  // ranks must choose the same schedule from them. A GEMM's number of threads may differ between ranks, but schedules
  // with GEMMs are chosen by the first rank for all. Ranks may even see different numbers of cores: latency times
  // bandwidth, from which each reckons whether a broadcast is passed on, does not depend on them but for rounding.
  const HostGemmSpeed speed = gemm_speed(gemm_library_);
  const double flops = speed.flops_per_second * (1 + further_thread * (crew_->size() - 1)) / ranks_for_each_core_;
  CostTable table{.gemm_flops_per_second = flops,  // widening narrow operands in panels costs little
                  .gemm_float8_flops_per_second = flops,
                  .gemm_f32_flops_per_second = flops,
                  .gemm_tf32_flops_per_second = flops,
                  .gemm_launch_seconds = 2e-6,
                  .hop_seconds = 30e-6 * ranks_for_each_core_,  // a thread is woken
                  .link_bytes_per_second = 8e9 / ranks_for_each_core_,
                  .link_latency_seconds = 1e-6 * ranks_for_each_core_,
                  .push_gap_seconds = 1e-6,
                  .store_bytes_per_second = 8e9 / ranks_for_each_core_,
                  .memory_bytes_per_second = 12e9 / ranks_for_each_core_,
                  .weights_bytes_per_second = speed.weights_bytes_per_second / ranks_for_each_core_,
                  .cache_bytes = 1.5e6,
                  .packed_rows = static_cast<double>(speed.packed_rows),
                  .packing_bytes_per_second = speed.packing_bytes_per_second / ranks_for_each_core_,
                  .copies_cost_compute = true};
  if (link_) {
    table.link_bytes_per_second = link_->options().bytes_per_second;
    table.store_bytes_per_second = table.link_bytes_per_second;
    table.link_latency_seconds = std::chrono::duration<double>(link_->options().latency).count();
    table.push_gap_seconds = 0;
    table.copies_cost_compute = false;
    table.gemm_launch_seconds = 30e-6 * ranks_for_each_core_;  // small GEMMs run at a lower rate
    // The last group's transfer is exposed; finer groups make it shorter, by more than the model says: ranks that share
    // cores are out of step, and cores faster than these constants have finished all else before it arrives. Where
    // pieces share packed weights, packing costs what finer groups could gain.
    table.finer_groups_may_cost = speed.packed_rows > 0 ? 0.005 : 0.05;
  }
  return table;
}

void* HostDevice::allocate(std::size_t bytes) {
  if (!home_.is_left()) deferred_frees_->sweep();  // a forked child's locks may never be released
  return allocate_host_memory(bytes);
}

void HostDevice::deallocate(void* memory) noexcept {
  if (home_.is_left()) return std::free(memory);  // forked child: queued work is its parent's to run
  try {
    deferred_frees_->sweep();
    deferred_frees_->free_behind(memory, workers_->streams());
  } catch (const std::bad_alloc&) {  // what is queued may still use it: better lost than used again
  }
}

void HostDevice::register_memory(void* /*memory*/, std::size_t /*bytes*/) {}
void HostDevice::unregister_memory(void* /*memory*/) noexcept {}

void HostDevice::upload(void* device_memory, const void* host_memory, std::size_t bytes) {
  if (bytes != 0) std::memcpy(device_memory, host_memory, bytes);
}

void HostDevice::download(void* host_memory, const void* device_memory, std::size_t bytes) {
  if (bytes != 0) std::memcpy(host_memory, device_memory, bytes);
}

StreamRef HostDevice::stream_create(StreamPriority priority) {
  refuse_forked_child();
  const std::uint64_t number = streams_made_.fetch_add(1, std::memory_order_relaxed) + 1;
  HostStreamPtr stream = HostStreamPtr::adopt(new HostStream(*workers_, priority, number));
  workers_->remember(*stream.get());
  return StreamRef(stream.release());
}

void HostDevice::stream_destroy(StreamRef stream) noexcept {
  if (home_.is_left()) return;  // forked child: queued work is its parent's to run
  if (HostStream::is_of(*workers_, stream)) static_cast<HostStream*>(stream.native_handle())->abandon();
}

void HostDevice::stream_synchronize(StreamRef stream) {
  host_stream(stream).synchronize();
  deferred_frees_->sweep();
}

bool HostDevice::stream_query(StreamRef stream) { return host_stream(stream).poll(host_stream(stream).ticket()); }

void* HostDevice::event_create(Event::Timing timing) { return new HostEvent(timing); }

void HostDevice::event_destroy(void* event) noexcept {
  if (home_.is_left()) return;  // forked child: this may be a stream's last reference
  delete static_cast<HostEvent*>(event);
}

void HostDevice::event_record(void* event, StreamRef stream) { host_event(event).record(host_stream(stream)); }

void HostDevice::event_wait(void* event, StreamRef stream) { host_event(event).wait(host_stream(stream)); }

bool HostDevice::event_query(void* event) {
  refuse_forked_child();
  return host_event(event).query();
}

void HostDevice::event_synchronize(void* event) {
  refuse_forked_child();
  host_event(event).synchronize();
}

double HostDevice::event_elapsed_ms(void* begin, void* end) {
  return host_event(end).elapsed_ms_since(host_event(begin));
}

// Throws only after all streams are finished: a caller that frees memory next relies on nothing being left to run.
void HostDevice::synchronize() {
  refuse_forked_child();
  const std::vector<HostStreamPtr> streams = workers_->streams();
  for (const HostStreamPtr& stream : streams) stream->finish(stream->ticket());
  deferred_frees_->sweep();
  for (const HostStreamPtr& stream : streams) stream->synchronize();
}

// This thread drains nothing itself: a queued wait could last longer than the limit.
bool HostDevice::synchronize_for(std::chrono::milliseconds limit) {
  refuse_forked_child();
  constexpr std::chrono::microseconds between_looks{50};
  const auto deadline = std::chrono::steady_clock::now() + std::min(limit, longest_timeout);
  for (const HostStreamPtr& stream : workers_->streams()) {
    for (const std::uint64_t ticket = stream->ticket(); !stream->poll(ticket);) {
      if (std::chrono::steady_clock::now() >= deadline) return false;
      std::this_thread::sleep_for(between_looks);
    }
  }
  deferred_frees_->sweep();
  return true;
}

void HostDevice::copy(StreamRef stream, const Copy& copy) {
  check_copy(copy);
  if (link_ && copy.path == Path::link) {
    host_stream(stream).enqueue(
        [copy, transfer = transfer(stream, bytes_of(copy))] {
          const EmulatedLink::Crossing crossing(transfer);
          copy_now(copy);
        },
        TaskWeight::heavy);
    return;
  }
  host_stream(stream).enqueue([copy] { copy_now(copy); }, weight_of(bytes_of(copy)));
}

void HostDevice::copy_batch(StreamRef stream, std::span<const Copy> copies) {
  if (copies.empty()) return;
  std::size_t bytes = 0;
  std::size_t link_bytes = 0;
  for (const Copy& copy : copies) {
    check_copy(copy);
    bytes += bytes_of(copy);
    if (link_ && copy.path == Path::link) link_bytes += bytes_of(copy);
  }
  host_stream(stream).enqueue_with(
      link_bytes != 0 ? TaskWeight::heavy : weight_of(bytes),
      [transfer = transfer(stream, link_bytes)](std::span<const Copy> all) {
        const EmulatedLink::Crossing crossing(transfer);
        for (const Copy& copy : all) copy_now(copy);
      },
      copies);
}

void HostDevice::push(StreamRef stream, std::span<const Push> pushes, WaitControl* control) {
  if (!link_) return Device::push(stream, pushes, control);
  if (pushes.empty()) return;
  HostStream& queue = host_stream(stream);
  queue.enqueue_with(
      TaskWeight::heavy,
      [first = link_->transfer(queue.pace, 0), &queue, control](std::span<const Push> all) {
        if (queue.failed() && control != nullptr) return fail_after_throw(*control);
        const std::int64_t ready_ns = first.ready_ns();
        for (const Push& push : all) {
          {
            const EmulatedLink::Crossing crossing(first, bytes_of(push.copy), ready_ns);
            copy_now(push.copy);
          }
          put_signals(std::span(&push.put, 1));
        }
      },
      pushes);
}

void HostDevice::cross_link(StreamRef stream, std::size_t bytes) {
  if (!link_ || bytes == 0) return;
  host_stream(stream).enqueue([transfer = transfer(stream, bytes)] { const EmulatedLink::Crossing crossing(transfer); },
                              TaskWeight::heavy);
}

void HostDevice::yield(StreamRef stream) {
  host_stream(stream).enqueue([] { offer_core(); }, TaskWeight::light);
}

void HostDevice::flush(StreamRef stream) { host_stream(stream).flush(); }

void HostDevice::cork(StreamRef stream) { host_stream(stream).cork(); }

void HostDevice::uncork(StreamRef stream) noexcept { static_cast<HostStream*>(stream.native_handle())->uncork(); }

void HostDevice::fill(StreamRef stream, void* memory, std::byte value, std::size_t bytes) {
  if (bytes == 0) return;
  host_stream(stream).enqueue([=] { std::memset(memory, static_cast<int>(value), bytes); }, weight_of(bytes));
}

void HostDevice::reduce(StreamRef stream, const Reduction& reduction) {
  check_reduction(reduction);
  const bool widens = reduction.out_dtype == f32 && (reduction.dtype == f16 || reduction.dtype == bf16);
  if (reduction.out_dtype != reduction.dtype && !widens) {
    throw Unsupported(
        format("a reduction of {} into {} on the host", name(reduction.dtype), name(reduction.out_dtype)));
  }
  expect_sums_of(reduction.dtype);
  const std::size_t operands = reduction.sources.size() + reduction.destinations.size();
  const std::size_t bytes = operands * static_cast<std::size_t>(reduction.count) * size_of(reduction.dtype);
  host_stream(stream).enqueue_with(
      link_ && reduction.link_bytes != 0 ? TaskWeight::heavy : weight_of(bytes),
      [mine = reduction, transfer = transfer(stream, reduction.link_bytes)](
          std::span<const void* const> sources, std::span<void* const> destinations) mutable {
        const EmulatedLink::Crossing crossing(transfer);
        mine.sources = sources;
        mine.destinations = destinations;
        reduce_now(mine);
      },
      reduction.sources, reduction.destinations);
}

void HostDevice::map(StreamRef stream, const Map& map) {
  check_map(map);
  expect_map(map);
  host_stream(stream).enqueue([map] { map_now(map); },
                              map.count >= heavy_elements ? TaskWeight::heavy : TaskWeight::light);
}

void HostDevice::column_sum(StreamRef stream, const ColumnSum& sum) {
  check_column_sum(sum);
  expect_elementwise(sum.dtype);
  const std::size_t bytes = static_cast<std::size_t>(sum.rows * sum.columns) * size_of(sum.dtype);
  host_stream(stream).enqueue([sum] { column_sum_now(sum); }, weight_of(bytes));
}

std::unique_ptr<Gemm> HostDevice::gemm(const GemmSpec& spec, std::span<const GemmAlgorithm> algorithms) {
  if (!algorithms.empty()) {
    throw InvalidArgument(format("a GEMM on the host was given algorithm '{}' for m = {}; it has none to choose from",
                                 algorithms.front().name, algorithms.front().m));
  }
  return std::make_unique<HostGemm>(spec, gemm_library_, gemm_choice_, *crew_, *workers_);
}

std::unique_ptr<Attention> HostDevice::attention(const AttentionSpec& spec) {
  return std::make_unique<HostAttention>(spec, gemm_library_, gemm_choice_, *crew_, *workers_);
}

void HostDevice::merge(StreamRef stream, const AttentionMerge& merge) {
  if (!check_merge(merge)) return;
  host_stream(stream).enqueue([merge] { merge_now(merge); },
                              merge.rows.count * merge.batch * merge.heads * merge.dim >= heavy_elements
                                  ? TaskWeight::heavy
                                  : TaskWeight::light);
}

void HostDevice::launch(StreamRef stream, std::function<void()> function) {
  if (!function) throw InvalidArgument("no function was given to launch");
  host_stream(stream).enqueue(std::move(function), TaskWeight::heavy);
}

void HostDevice::signal(StreamRef stream, std::span<const SignalPut> puts, WaitControl* control) {
  if (puts.empty()) return;
  HostStream& queue = host_stream(stream);
  queue.enqueue_with(
      TaskWeight::light,
      [&queue, control](std::span<const SignalPut> all) {
        if (queue.failed() && control != nullptr) return fail_after_throw(*control);
        put_signals(all);
      },
      puts);
}

void HostDevice::wait(StreamRef stream, std::span<const SignalWait> waits, WaitControl* control) {
  if (waits.empty()) return;
  host_stream(stream).enqueue_with(
      TaskWeight::light,
      [control, workers = workers_.get()](std::span<const SignalWait> all) { wait_signals(all, *control, *workers); },
      waits);
}

void HostDevice::wait_and_count(StreamRef stream, std::span<const SignalWait> waits, std::span<const SignalPut> puts,
                                WaitControl* control) {
  wait(stream, waits, control);
  if (puts.empty()) return;
  host_stream(stream).enqueue_with(TaskWeight::light, [](std::span<const SignalPut> all) { count_signals(all); }, puts);
}

namespace {

/// The task that `HostDevice::mail` queues. Without an emulated link, `begin` may send the letters as it is queued.
class MailTask {
 public:
  MailTask(const HostStream& stream, HostWorkers& workers, const MailUse& use, EmulatedLink::Transfer transfer,
           WaitControl* control) noexcept
      : stream_(&stream),
        workers_(&workers),
        control_(control),
        transfer_(transfer),
        out_(use.out),
        count_(use.count),
        dtype_(use.dtype) {}

  void begin(std::span<const Letter> letters, std::span<const void* const> /*sources*/,
             std::span<const MailPlace> /*places*/) noexcept {
    if (transfer_.link != nullptr || stream_->failed()) return;
    send(letters);
    sent_ = true;
  }
  void operator()(std::span<const Letter> letters, std::span<const void* const> sources,
                  std::span<const MailPlace> places) const {
    if (!sent_) {
      if (stream_->failed()) return fail_after_throw(*control_);
      send(letters);
    }
    wait_letters(letters, *control_, *workers_);
    use_mail({sources, places, out_, count_, dtype_});
  }

 private:
  void send(std::span<const Letter> letters) const {
    {
      const EmulatedLink::Crossing crossing(transfer_);
      write_letters(letters);
    }
    // After all messages, not each after its own: a signal waits for the stores before it, and this way those of
    // several messages are in flight at the same time.
    signal_letters(letters);
  }

  const HostStream* stream_;
  HostWorkers* workers_;
  WaitControl* control_;
  EmulatedLink::Transfer transfer_;
  void* out_;
  std::int64_t count_;
  DType dtype_;
  bool sent_ = false;
};

}  // namespace

void HostDevice::mail(StreamRef stream, std::span<const Letter> letters, const MailUse& use, WaitControl* control) {
  std::size_t bytes = 0;
  if (link_) {
    for (const Letter& letter : letters) bytes += letter.bytes;
  }
  HostStream& queue = host_stream(stream);
  queue.enqueue_with(link_ ? TaskWeight::heavy : TaskWeight::light,
                     MailTask(queue, *workers_, use, transfer(stream, bytes), control), letters, use.sources,
                     use.places);
}

std::string HostDevice::read_process(std::int64_t process, const void* address, void* to, std::size_t bytes) {
  const int error = read_process_memory(process, address, to, bytes);
  return error == 0 ? std::string() : std::generic_category().message(error);
}

void HostDevice::lend(StreamRef stream, Loan* loan, const void* memory) {
  host_stream(stream).enqueue([loan, memory] { loan->begin = static_cast<const std::byte*>(memory); },
                              TaskWeight::light);
}

void HostDevice::fetch(StreamRef stream, const Fetch& fetch, WaitControl* control) {
  const bool crosses = link_ && fetch.path == Path::link;
  host_stream(stream).enqueue(
      [fetch, control, transfer = transfer(stream, crosses ? fetch.bytes : 0)] {
        const EmulatedLink::Crossing crossing(transfer);
        fetch_now(fetch, *control);
      },
      crosses ? TaskWeight::heavy : weight_of(fetch.bytes));
}

void HostDevice::trace_begin(StreamRef stream, const char* name, TraceKind kind) {
  HostStream& mine = host_stream(stream);
  if (!mine.track_named.exchange(true, std::memory_order_relaxed)) {
    trace().name_track(mine.number(), format("stream {}{}", mine.number(),
                                             mine.priority() == StreamPriority::high ? ", high priority" : ""));
  }
  mine.enqueue(
      [&mine, name, kind] {
        const std::size_t depth = mine.open_range_count++;
        if (depth < HostStream::max_open_ranges) mine.open_ranges[depth] = {name, kind, Trace::now_ns()};
      },
      TaskWeight::light);
}

void HostDevice::trace_end(StreamRef stream) noexcept {
  if (home_.is_left()) return;  // forked child: the range is its parent's
  HostStream& mine = host_stream(stream);
  const auto end = [&mine, this] {
    const std::int64_t now = Trace::now_ns();
    if (mine.open_range_count == 0 || --mine.open_range_count >= HostStream::max_open_ranges) return;
    const HostStream::OpenRange& range = mine.open_ranges[mine.open_range_count];
    trace().add({range.name, range.kind, mine.number(), range.begin_ns, now});
  };
  try {
    mine.enqueue(end, TaskWeight::light);
  } catch (const std::exception&) {  // the trace lacks this range
  }
}

// Ranges are added to the trace as they end, so it is enough to finish what is queued.
void HostDevice::trace_collect() {
  refuse_forked_child();
  for (const HostStreamPtr& stream : workers_->streams()) stream->finish(stream->ticket());
}

}  // namespace tandem
