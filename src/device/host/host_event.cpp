// SPDX-License-Identifier: Apache-2.0
#include "device/host/host_event.hpp"

#include <mutex>
#include <utility>

#include "tandem/base/error.hpp"
#include "tandem/base/trace.hpp"

#include "device/host/core_offer.hpp"

namespace tandem {

void HostEvent::record(HostStream& stream) {
  std::shared_ptr<std::atomic<std::int64_t>> passed_at;
  if (timing_ == Event::Timing::on) {
    passed_at = std::make_shared<std::atomic<std::int64_t>>(0);
    stream.enqueue([passed_at] { passed_at->store(Trace::now_ns(), std::memory_order_release); }, TaskWeight::light);
  }
  Mark replaced;  // released after the lock
  const std::lock_guard guard(lock_);
  const std::uint64_t ticket = stream.ticket();
  passed_at_.swap(passed_at);
  if (mark_.stream.get() == &stream) {
    mark_.ticket = ticket;
  } else if (stream.passed(ticket) && !stream.failed()) {
    marked_.store(nullptr, std::memory_order_relaxed);
    std::swap(mark_, replaced);
  } else {
    replaced = std::exchange(mark_, Mark{HostStreamPtr(stream), ticket});
    marked_.store(&stream, std::memory_order_relaxed);
  }
}

HostEvent::Mark HostEvent::mark() {
  const std::lock_guard guard(lock_);
  HostStream* const stream = mark_.stream.get();
  if (stream == nullptr || (stream->passed(mark_.ticket) && !stream->failed_up_to(mark_.ticket))) return {};
  return {HostStreamPtr(*stream), mark_.ticket};
}

void HostEvent::wait(HostStream& stream) {
  if (marked_.load(std::memory_order_relaxed) == &stream) return;  // a stream's tasks run in order anyway
  Mark before = mark();
  if (before.stream.get() == nullptr) return;
  // The thread that waits may be on the same core, or be a peer whose first GEMMs others wait for: it should get the
  // core before the work that is queued on that stream next.
  before.stream->enqueue([] { offer_core(); }, TaskWeight::light);
  stream.enqueue(
      [before = std::move(before)] {
        before.stream->finish(before.ticket);
        before.stream->rethrow_up_to(before.ticket);  // work that depends on failed work fails, too
      },
      TaskWeight::light);
}

bool HostEvent::query() {
  const Mark before = mark();
  return before.stream.get() == nullptr || before.stream->poll(before.ticket);
}

void HostEvent::synchronize() {
  const Mark before = mark();
  if (before.stream.get() != nullptr) before.stream->finish(before.ticket);
}

std::int64_t HostEvent::passed_at_ns() {
  const std::lock_guard guard(lock_);
  if (timing_ == Event::Timing::off) throw InvalidArgument("elapsed time of an event that was made with Timing::off");
  const std::int64_t ns = passed_at_ == nullptr ? 0 : passed_at_->load(std::memory_order_acquire);
  if (ns == 0) throw InvalidArgument("elapsed time of an event that has not been recorded, or not been passed");
  return ns;
}

double HostEvent::elapsed_ms_since(HostEvent& begin) {
  return static_cast<double>(passed_at_ns() - begin.passed_at_ns()) * 1e-6;
}

}  // namespace tandem
