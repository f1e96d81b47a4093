// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "tandem/team/bootstrap.hpp"

#include "base/home_process.hpp"
#include "team/peer_socket.hpp"

namespace tandem {

/// The bootstrap of one node: a socket to each peer, and one thread that reads from all of them, sends what did not fit
/// into a socket at once, and notices each peer's end. A parcel is sent as one or more messages, each with a header.
///
/// Invariants: what one rank sends to another arrives complete and in order; only `receive` and `flush` block, and the
/// destructor, within its documented limit; the listener runs on the mesh's thread, without its lock, and never after
/// the destructor returns; a rank that is lost to one rank is lost to all, and each learns of the loss before it learns
/// of other ranks' reactions to it.
class Mesh final : public Bootstrap {
 public:
  /// `sockets` as returned by `connect_ranks`; `patience` is how long the destructor may wait.
  Mesh(int rank, std::vector<PeerSocket> sockets, std::chrono::milliseconds patience);
  /// Says goodbye to the peers. Waits only while a peer's socket is full, until it has accepted the queued messages and
  /// the goodbye; a peer that does not read in time treats this rank as lost. So do all peers if the destructor runs
  /// because of an exception or after `end_as_lost` (the goodbye says so), or if the process ends without it.
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
  /// Throws PeerLost for the first peer that was lost, if any: others may have left because of it.
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
  HomeProcess home_;
  int exceptions_;
  bool ends_well_ = true;
  std::vector<std::unique_ptr<Peer>> peers_;
  FileDescriptor epoll_;
  FileDescriptor wake_;

  std::mutex mutex_;  // guards everything below, and all of a Peer but its info
  std::unique_ptr<std::condition_variable> changed_ = std::make_unique<std::condition_variable>();
  std::map<Key, Arrival> inbox_;
  std::map<std::uint64_t, std::uint64_t> last_received_;  // of failed teams: higher sequences are dropped
  std::deque<Event> events_;
  const Peer* first_lost_ = nullptr;
  Listener listener_;
  bool stopping_ = false;
  bool retry_ = false;  // the kernel was short of memory: send again soon

  std::vector<std::byte> buffer_;  // used by the thread only, and by `drain` after it
  std::unique_ptr<std::thread> thread_;
};

}  // namespace tandem
