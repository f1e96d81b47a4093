// SPDX-License-Identifier: Apache-2.0
#include "team/mesh.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <exception>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "tandem/base/error.hpp"

#include "base/format.hpp"
#include "base/signals_blocked.hpp"
#include "team/descriptor_limit.hpp"
#include "team/descriptor_passing.hpp"
#include "team/lost_peer.hpp"
#include "team/names.hpp"
#include "team/socket.hpp"

namespace tandem {
namespace {

#if defined(__SANITIZE_THREAD__)
// If ranks are threads of one process, what a rank does before it sends a parcel happens before what the receiver does
// after. ThreadSanitizer cannot see that through a socket, so an atomic tells it.
std::atomic<std::uint64_t> parcels_sent{0};
void parcel_leaves() noexcept { parcels_sent.fetch_add(1, std::memory_order_acq_rel); }
void parcel_arrives() noexcept { static_cast<void>(parcels_sent.fetch_add(0, std::memory_order_acq_rel)); }
#else
void parcel_leaves() noexcept {}
void parcel_arrives() noexcept {}
#endif

constexpr std::size_t max_payload = 60 * 1024;              // of a message, in addition to its header
constexpr auto slice = std::chrono::milliseconds(20);       // how often a waiter calls `stop`
constexpr auto retry_pause = std::chrono::milliseconds(5);  // while the kernel is short of memory

constexpr std::uint64_t wake_tag = ~std::uint64_t{0};
constexpr std::uint64_t pidfd_bit = std::uint64_t{1} << 32;

}  // namespace

struct Mesh::Header {
  Kind kind = Kind::parcel;
  std::uint32_t descriptors = 0;  // in this message
  std::uint64_t team = 0;
  std::uint64_t sequence = 0;
  std::uint64_t bytes = 0;            // of the whole parcel
  std::uint64_t all_descriptors = 0;  // of the whole parcel
  std::int32_t lost = -1;             // in `abort` and `lost`: the lost rank
  std::uint32_t well = 0;             // in a goodbye: 1 if no exception ends the world
};

struct Mesh::Message {
  Header header;
  std::vector<std::byte> payload;
  std::vector<FileDescriptor> descriptors;
};

struct Mesh::Arrival {
  Parcel parcel;
  bool damaged = false;  // descriptors were lost in transit
};

struct Mesh::Event {
  int peer = 0;
  std::optional<Abort> abort;  // empty: the peer has ended
  bool clean = false;
};

struct Mesh::Peer {
  enum class State : std::uint8_t { here, left, lost };

  PeerInfo info;
  FileDescriptor socket;
  FileDescriptor pidfd;
  State state = State::here;
  std::deque<Message> outgoing;

  Arrival partial;                // a parcel, some of whose messages have not arrived yet
  std::uint64_t descriptors = 0;  // in those that have arrived, including descriptors that were dropped
};

Mesh::Mesh(int rank, std::vector<PeerSocket> sockets, std::chrono::milliseconds patience)
    : rank_(rank),
      patience_(patience),
      exceptions_(std::uncaught_exceptions()),
      epoll_(FileDescriptor::from_native_handle(::epoll_create1(EPOLL_CLOEXEC))),
      wake_(FileDescriptor::from_native_handle(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))),
      buffer_(128 * 1024) {
  if (!epoll_ || !wake_) throw DeviceError(format("epoll or eventfd could not be made: {}", std::strerror(errno)));
  epoll_ = move_high(std::move(epoll_));
  wake_ = move_high(std::move(wake_));
  watch(wake_.get(), wake_tag, false, false);
  for (PeerSocket& each : sockets) {
    auto peer = std::make_unique<Peer>();
    peer->info = std::move(each.info);
    peer->socket = std::move(each.socket);
    const auto tag = static_cast<std::uint64_t>(peers_.size());
    if (peer->socket) watch(peer->socket.get(), tag, false, false);
    // A child that a peer forked keeps the peer's sockets open: then only the pidfd reports the peer's death.
    if (each.process != 0) {
      const auto pidfd = ::syscall(SYS_pidfd_open, static_cast<pid_t>(each.process), 0U);
      peer->pidfd = FileDescriptor::from_native_handle(static_cast<int>(pidfd));
      if (peer->pidfd) watch((peer->pidfd = move_high(std::move(peer->pidfd))).get(), tag | pidfd_bit, false, false);
    }
    peers_.push_back(std::move(peer));
  }
  if (peers_.size() > 1) {
    // The program's signal handlers must not run on this thread.
    const SignalsBlocked guard;
    try {
      thread_ = std::make_unique<std::thread>([this] { run(); });
    } catch (const std::system_error& error) {
      throw DeviceError(format("rank {} could not start the thread that hears its peers: {}", rank_, error.what()));
    }
  }
}

Mesh::~Mesh() {
  if (home_.is_left()) {  // a forked child destroys its copy: only the parent may say goodbye on these sockets
    // The parent's threads do not exist here, so the thread object and the condition variable must not be touched.
    [[maybe_unused]] const std::thread* const never_freed = thread_.release();
    [[maybe_unused]] const std::condition_variable* const never_destroyed = changed_.release();
    return;
  }
  const bool well = ends_well_ && std::uncaught_exceptions() <= exceptions_;
  if (thread_ != nullptr) {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      listener_ = {};
    }
    wake();
    thread_->join();
  }
  for (const auto& peer : peers_) {
    if (!peer->socket || peer->state != Peer::State::here) continue;
    try {
      std::vector<Message> goodbye(1);
      goodbye[0].header = {.kind = Kind::goodbye, .well = well ? 1U : 0U};
      enqueue(*peer, std::move(goodbye));
      transmit(*peer);
    } catch (...) {  // then peers see the socket close, and treat this rank as lost
    }
  }
  try {
    drain();
  } catch (...) {  // as above
  }
}

const PeerInfo& Mesh::peer(int rank) const { return at(rank).info; }

Mesh::Peer& Mesh::at(int rank) const {
  if (rank < 0 || rank >= static_cast<int>(peers_.size())) {
    throw InvalidArgument(format("rank {} is not in this world; allowed: 0 to {}", rank, peers_.size() - 1));
  }
  return *peers_[static_cast<std::size_t>(rank)];
}

void Mesh::throw_gone(const Peer& peer) const {
  throw lost_peer(tell_gone(peer.info, peer.state == Peer::State::left), peer.info);
}

void Mesh::send(int rank, std::uint64_t team, std::uint64_t sequence, Parcel parcel) {
  Peer& peer = at(rank);
  parcel_leaves();
  std::vector<Message> messages;
  std::size_t bytes = 0;
  std::size_t descriptors = 0;
  do {
    Message message;
    message.header = {.kind = messages.empty() ? Kind::parcel : Kind::rest_of_parcel,
                      .team = team,
                      .sequence = sequence,
                      .bytes = parcel.bytes.size(),
                      .all_descriptors = parcel.descriptors.size()};
    const std::size_t take = std::min(max_payload, parcel.bytes.size() - bytes);
    const auto begin = parcel.bytes.begin() + static_cast<std::ptrdiff_t>(bytes);
    message.payload.assign(begin, begin + static_cast<std::ptrdiff_t>(take));
    bytes += take;
    while (descriptors < parcel.descriptors.size() && message.descriptors.size() < max_passed_descriptors) {
      message.descriptors.push_back(std::move(parcel.descriptors[descriptors++]));
    }
    message.header.descriptors = static_cast<std::uint32_t>(message.descriptors.size());
    messages.push_back(std::move(message));
  } while (bytes < parcel.bytes.size() || descriptors < parcel.descriptors.size());

  const std::lock_guard lock(mutex_);
  if (rank == rank_) {
    Arrival& arrival = inbox_[{rank, team, sequence}];
    arrival.parcel.bytes = std::move(parcel.bytes);
    for (Message& message : messages) {
      std::move(message.descriptors.begin(), message.descriptors.end(), std::back_inserter(arrival.parcel.descriptors));
    }
    return;
  }
  if (peer.state != Peer::State::here) throw_gone(peer);
  enqueue(peer, std::move(messages));
}

Parcel Mesh::receive(int rank, std::uint64_t team, std::uint64_t sequence, Clock::time_point deadline,
                     const std::function<void()>& stop) {
  Peer& peer = at(rank);
  while (true) {
    // A parcel that has arrived is returned even if the team has failed since.
    if (auto parcel = try_receive(rank, team, sequence)) return std::move(*parcel);
    if (stop) stop();
    std::unique_lock lock(mutex_);
    if (auto parcel = take({rank, team, sequence})) return std::move(*parcel);
    if (peer.state != Peer::State::here) throw_gone(peer);
    const auto now = Clock::now();
    if (now >= deadline) throw Timeout(format("{} sent nothing in time", to_string(peer.info)), rank);
    changed_->wait_until(lock, std::min(deadline, now + slice));
  }
}

std::optional<Parcel> Mesh::try_receive(int rank, std::uint64_t team, std::uint64_t sequence) {
  const std::lock_guard lock(mutex_);
  return take({at(rank).info.rank, team, sequence});
}

std::optional<Parcel> Mesh::take(const Key& key) {
  const auto found = inbox_.find(key);
  if (found == inbox_.end()) return std::nullopt;
  Arrival arrival = std::move(found->second);
  inbox_.erase(found);
  parcel_arrives();
  if (arrival.damaged) {
    throw OutOfMemory(format("file descriptors that rank {} sent to rank {} were dropped: {}; {}", std::get<0>(key),
                             rank_, std::strerror(EMFILE), describe_descriptor_limit()));
  }
  return std::move(arrival.parcel);
}

void Mesh::drop_beyond(std::uint64_t team, std::uint64_t sequence) noexcept {
  std::map<Key, Arrival> dropped;  // freed after unlocking: closing a large memory's last descriptor is slow
  const std::lock_guard lock(mutex_);
  try {
    std::uint64_t& last = last_received_.try_emplace(team, sequence).first->second;
    last = std::min(last, sequence);
  } catch (...) {  // no memory: then parcels that arrive later stay until this world ends
  }
  for (auto at = inbox_.begin(); at != inbox_.end();) {
    const auto here = at++;
    if (std::get<1>(here->first) == team && std::get<2>(here->first) > sequence) dropped.insert(inbox_.extract(here));
  }
}

bool Mesh::is_dropped(std::uint64_t team, std::uint64_t sequence) const {
  const auto last = last_received_.find(team);
  return last != last_received_.end() && sequence > last->second;
}

void Mesh::flush(std::span<const int> ranks, Clock::time_point deadline, const std::function<void()>& stop) {
  const auto sent = [&] { return std::ranges::all_of(ranks, [this](int rank) { return at(rank).outgoing.empty(); }); };
  while (true) {
    {
      std::unique_lock lock(mutex_);
      const auto now = Clock::now();
      if (changed_->wait_until(lock, std::min(deadline, now + slice), sent) || now >= deadline) return;
    }
    if (stop) stop();
  }
}

void Mesh::send_abort(int rank, const Abort& abort) noexcept {
  try {
    Peer& peer = at(rank);
    std::vector<Message> messages(1);
    const auto text = std::as_bytes(std::span(abort.reason)).first(std::min(abort.reason.size(), max_payload));
    messages[0].header = {.kind = Kind::abort, .team = abort.team, .lost = abort.lost};
    messages[0].payload.assign(text.begin(), text.end());
    const std::lock_guard lock(mutex_);
    if (peer.state == Peer::State::here && peer.socket) enqueue(peer, std::move(messages));
    changed_->notify_all();
  } catch (...) {  // no memory for the message: the peers' own deadlines end their waits
  }
}

void Mesh::listen(Listener listener) {
  const std::lock_guard lock(mutex_);
  listener_ = std::move(listener);
  wake();
}

void Mesh::throw_if_lost() {
  const std::lock_guard lock(mutex_);
  if (first_lost_ != nullptr) throw_gone(*first_lost_);
}

void Mesh::enqueue(Peer& peer, std::vector<Message> messages) {
  const bool idle = peer.outgoing.empty();
  for (Message& message : messages) peer.outgoing.push_back(std::move(message));
  if (idle) transmit(peer);
}

/// Sends until the queue is empty or the kernel accepts no more; then the mesh's thread continues when it does.
void Mesh::transmit(Peer& peer) {
  static_assert(sizeof(Header) + max_payload <= largest_message);
  while (!peer.outgoing.empty()) {
    const Message& message = peer.outgoing.front();
    switch (send_with_descriptors(peer.socket, std::as_bytes(std::span(&message.header, 1)), message.payload,
                                  message.descriptors)) {
      case Sending::sent: peer.outgoing.pop_front(); break;
      case Sending::full: watch(peer.socket.get(), static_cast<std::uint64_t>(peer.info.rank), true, true); return;
      case Sending::short_of_memory:
        retry_ = true;
        wake();
        return;
      case Sending::ended: peer.outgoing.clear(); break;  // it is gone; reading its socket tells how
    }
  }
}

/// Called by the destructor, after the thread has ended: sends what the sockets had no room for. What peers send
/// meanwhile is read and discarded: otherwise two ranks that end at the same time could wait for each other.
void Mesh::drain() {
  const auto deadline = Clock::now() + patience_;
  while (true) {
    std::vector<pollfd> polled;
    std::vector<Peer*> waiting;
    for (const auto& peer : peers_) {
      if (peer->outgoing.empty()) continue;
      polled.push_back({peer->socket.get(), POLLIN | POLLOUT, 0});
      waiting.push_back(peer.get());
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    if (waiting.empty() || left.count() <= 0) return;
    if (std::exchange(retry_, false)) std::this_thread::sleep_for(retry_pause);
    if (::poll(polled.data(), polled.size(), static_cast<int>(left.count())) < 0) continue;
    for (std::size_t i = 0; i < waiting.size(); ++i) {
      if ((polled[i].revents & POLLIN) != 0) {
        static_cast<void>(receive_with_descriptors(waiting[i]->socket, buffer_));
      }
      if (polled[i].revents != 0) transmit(*waiting[i]);
    }
  }
}

void Mesh::watch(int fd, std::uint64_t tag, bool writable, bool change) const {
  epoll_event event{};
  event.events = EPOLLIN | (writable ? EPOLLOUT : 0U);
  event.data.u64 = tag;
  if (::epoll_ctl(epoll_.get(), change ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &event) != 0) {
    throw DeviceError(format("epoll_ctl failed: {}", std::strerror(errno)));
  }
}

void Mesh::wake() const noexcept {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof(one));
}

void Mesh::run() noexcept {
  std::array<epoll_event, 64> ready{};
  while (true) {
    bool retry = false;
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) return;
      retry = std::exchange(retry_, false);
    }
    // A send that failed has woken this thread, so epoll_wait would return at once, without a pause.
    if (retry) std::this_thread::sleep_for(retry_pause);
    const int count = ::epoll_wait(epoll_.get(), ready.data(), static_cast<int>(ready.size()), retry ? 0 : -1);
    try {
      const std::lock_guard lock(mutex_);
      for (int i = 0; i < count; ++i) {
        const epoll_event& event = ready[static_cast<std::size_t>(i)];
        const std::uint64_t tag = event.data.u64;
        if (tag == wake_tag) {
          std::uint64_t ignored = 0;
          [[maybe_unused]] const ssize_t size = ::read(wake_.get(), &ignored, sizeof(ignored));
          continue;
        }
        Peer& peer = *peers_[static_cast<std::size_t>(tag & ~pidfd_bit)];
        if (peer.state != Peer::State::here) continue;
        if ((tag & pidfd_bit) != 0) {
          read(peer);  // what it sent before it ended
          if (peer.state == Peer::State::here) part(peer, false);
        } else {
          serve(peer, event.events);
        }
      }
      if (retry) {
        for (const auto& peer : peers_) {
          if (peer->state == Peer::State::here) transmit(*peer);
        }
      }
    } catch (...) {  // no memory for what arrived: waits for it end at their deadlines
    }
    dispatch();
    changed_->notify_all();  // not before: a waiter that finds several peers gone asks the Core which was first
  }
}

void Mesh::serve(Peer& peer, std::uint32_t events) {
  if ((events & EPOLLOUT) != 0) {
    watch(peer.socket.get(), static_cast<std::uint64_t>(peer.info.rank), false, true);
    transmit(peer);
  }
  if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) read(peer);
}

void Mesh::read(Peer& peer) {
  while (peer.state == Peer::State::here) {
    ReceivedWithDescriptors received = receive_with_descriptors(peer.socket, buffer_);
    if (received.state == ReceivedWithDescriptors::State::nothing) return;
    if (received.state == ReceivedWithDescriptors::State::end) return part(peer, false);
    accept_message(peer, received.message, std::move(received.descriptors), received.dropped);
  }
}

void Mesh::accept_message(Peer& peer, std::span<const std::byte> bytes, std::vector<FileDescriptor> descriptors,
                          bool damaged) {
  Header header;
  if (bytes.size() < sizeof(header)) return part(peer, false);
  std::memcpy(&header, bytes.data(), sizeof(header));
  const auto payload = bytes.subspan(sizeof(header));
  switch (header.kind) {
    case Kind::goodbye: return part(peer, header.well == 1);
    case Kind::abort: {
      const bool known = header.lost >= 0 && header.lost < static_cast<int>(peers_.size());
      events_.push_back({peer.info.rank,
                         Abort{header.team, known ? header.lost : -1,
                               std::string(reinterpret_cast<const char*>(payload.data()), payload.size())},
                         false});
      return;
    }
    case Kind::lost: {
      if (header.lost < 0 || header.lost >= static_cast<int>(peers_.size()) || header.lost == rank_) return;
      Peer& lost = *peers_[static_cast<std::size_t>(header.lost)];
      if (lost.state == Peer::State::here) read(lost);  // what it sent before it ended
      if (lost.state == Peer::State::here) part(lost, false);
      return;
    }
    case Kind::parcel:
      peer.partial = {};
      peer.descriptors = 0;
      break;
    case Kind::rest_of_parcel: break;
    default: return part(peer, false);
  }
  Arrival& arrival = peer.partial;
  arrival.parcel.bytes.insert(arrival.parcel.bytes.end(), payload.begin(), payload.end());
  arrival.damaged = arrival.damaged || damaged || descriptors.size() != header.descriptors;
  std::move(descriptors.begin(), descriptors.end(), std::back_inserter(arrival.parcel.descriptors));
  peer.descriptors += header.descriptors;
  if (arrival.parcel.bytes.size() < header.bytes || peer.descriptors < header.all_descriptors) return;
  Arrival whole = std::exchange(peer.partial, {});
  if (!is_dropped(header.team, header.sequence)) {
    inbox_[{peer.info.rank, header.team, header.sequence}] = std::move(whole);
  }
}

void Mesh::part(Peer& peer, bool clean) {
  peer.state = clean ? Peer::State::left : Peer::State::lost;
  // A forked child of this process keeps both open, so that closing them would not remove them from epoll.
  for (FileDescriptor* watched : {&peer.socket, &peer.pidfd}) {
    if (*watched) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, watched->get(), nullptr);
    *watched = {};
  }
  peer.outgoing.clear();
  peer.partial = {};
  events_.push_back({peer.info.rank, std::nullopt, clean});
  if (clean) return;
  if (first_lost_ == nullptr) first_lost_ = &peer;
  spread(peer.info.rank);
}

/// Tells all peers. A dying process's sockets close one after the other, and a rank that notices late must not mistake
/// a survivor that has given up meanwhile for the rank that died.
void Mesh::spread(int lost) {
  for (const auto& peer : peers_) {
    if (!peer->socket || peer->state != Peer::State::here) continue;
    std::vector<Message> messages(1);
    messages[0].header = {.kind = Kind::lost, .lost = lost};
    enqueue(*peer, std::move(messages));
  }
}

void Mesh::dispatch() {
  while (true) {
    Event event;
    Listener listener;
    {
      const std::lock_guard lock(mutex_);
      if (events_.empty() || !listener_.lost || stopping_) return;
      event = std::move(events_.front());
      events_.pop_front();
      listener = listener_;
    }
    try {
      if (event.abort) {
        listener.aborted(event.peer, *event.abort);
      } else {
        listener.lost(event.peer, event.clean);
      }
    } catch (...) {  // a listener's exceptions must not end this thread
    }
    const std::lock_guard lock(mutex_);
    changed_->notify_all();
  }
}

}  // namespace tandem
