// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <sys/types.h>
#include <thread>
#include <tuple>
#include <vector>

#include "tandem/team/bootstrap.hpp"

#include "team/rendezvous.hpp"

namespace tandem {

/// The bootstrap of one node: a socket to each peer, and one thread that reads them all, sends what did not fit at once
/// and hears of each peer's end. A parcel goes as one or more messages, which each carry a header.
///
/// Invariants: what one rank sends to another arrives whole and in order; no call but `receive` and `flush` blocks, and
/// the destructor no longer than it says; the listener runs on the mesh's thread, without its lock, and never after the
/// destructor has begun to return; a rank that one rank has lost is lost to all, and each hears of it before it hears
/// what anybody did about it.
class Mesh final : public Bootstrap {
 public:
  /// `links` as `meet` gives them; `patience` is how long the destructor may wait.
  Mesh(int rank, std::vector<Link> links, std::chrono::milliseconds patience);
  /// Says goodbye to the peers. It waits only where a peer's socket is full, for that to take what was sent before and
  /// the goodbye; whoever reads nothing in time counts this rank as lost. A destructor run by a passing exception says
  /// that it fails, and so does one after `end_as_lost`, or a process's end: peers then count this rank as lost, too.
  ~Mesh() override;
  Mesh(const Mesh&) = delete;
  Mesh& operator=(const Mesh&) = delete;

  [[nodiscard]] const PeerInfo& peer(int rank) const override;
  void send(int rank, std::uint64_t team, std::uint64_t sequence, Parcel parcel) override;
  [[nodiscard]] Parcel receive(int rank, std::uint64_t team, std::uint64_t sequence, Clock::time_point deadline,
                               const std::function<void()>& stop) override;
  [[nodiscard]] std::optional<Parcel> try_receive(int rank, std::uint64_t team, std::uint64_t sequence) override;
  void drop_beyond(std::uint64_t team, std::uint64_t sequence) noexcept override;
  void flush(std::span<const int> ranks, Clock::time_point deadline, const std::function<void()>& stop) override;
  void send_abort(int rank, const Abort& abort) noexcept override;
  void listen(Listener listener) override;
  void end_as_lost() noexcept override { ends_well_ = false; }
  /// Throws PeerLost for the peer that was lost first, if one is: others may have left because of it.
  void throw_if_lost();

 private:
  enum class Kind : std::uint32_t { parcel, rest_of_parcel, abort, lost, goodbye };
  struct Header;
  struct Message;
  struct Arrival;
  struct Peer;
  struct Event;
  using Key = std::tuple<int, std::uint64_t, std::uint64_t>;

  [[nodiscard]] Peer& at(int rank) const;
  [[noreturn]] void throw_gone(const Peer& peer) const;
  [[nodiscard]] std::optional<Parcel> take(const Key& key);
  [[nodiscard]] bool is_dropped(std::uint64_t team, std::uint64_t sequence) const;
  void enqueue(Peer& peer, std::vector<Message> messages);
  void transmit(Peer& peer);
  void drain();
  void watch(int fd, std::uint64_t tag, bool writable, bool change) const;
  void wake() const noexcept;

  void run() noexcept;
  void serve(Peer& peer, std::uint32_t events);
  void read(Peer& peer);
  void accept_message(Peer& peer, std::span<const std::byte> bytes, std::vector<FileDescriptor> descriptors,
                      bool damaged);
  void part(Peer& peer, bool clean);
  void spread(int lost);
  void dispatch();

  int rank_;
  std::chrono::milliseconds patience_;
  pid_t process_;
  int exceptions_;
  bool ends_well_ = true;
  std::vector<std::unique_ptr<Peer>> peers_;
  FileDescriptor epoll_;
  FileDescriptor wake_;

  std::mutex mutex_;  // everything below, and all of a Peer but its info
  std::unique_ptr<std::condition_variable> changed_ = std::make_unique<std::condition_variable>();
  std::map<Key, Arrival> inbox_;
  std::map<std::uint64_t, std::uint64_t> last_received_;  // of failed teams: what has a higher sequence is dropped
  std::deque<Event> events_;
  const Peer* first_lost_ = nullptr;
  Listener listener_;
  bool stopping_ = false;
  bool retry_ = false;  // the kernel was short of something: try again soon

  std::vector<std::byte> buffer_;  // the thread's own
  std::unique_ptr<std::thread> thread_;
};

}  // namespace tandem
