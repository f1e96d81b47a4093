// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tandem/base/concepts.hpp"
#include "tandem/base/export.hpp"
#include "tandem/team/file_descriptor.hpp"

namespace tandem {

/// Bytes, and within a node file descriptors, from one rank to another.
struct Parcel {
  std::vector<std::byte> bytes;
  std::vector<FileDescriptor> descriptors;
};

/// The identity of a rank, for errors and for what only processes on one node can do.
struct PeerInfo {
  int rank = 0;
  std::int64_t pid = 0;
  std::string host{};
};

/// A message from a rank that ends a team for all of its members.
struct Abort {
  std::uint64_t team = 0;
  int lost = -1;  ///< the cause: the rank whose process or world has ended; -1: another cause
  std::string reason;
};

/// How the ranks of a world communicate during set-up, and how each learns that another one is gone. On one node: a
/// mesh of Unix sockets. Several nodes will need another implementation, which cannot send descriptors to other nodes.
class TANDEM_API Bootstrap {
 public:
  using Clock = std::chrono::steady_clock;
  /// Called from the bootstrap's thread: once for each peer that is gone (`clean` if it said goodbye), and for each
  /// abort that a peer sent.
  struct Listener {
    std::function<void(int peer, bool clean)> lost;
    std::function<void(int peer, const Abort& abort)> aborted;
  };

  virtual ~Bootstrap();
  Bootstrap(const Bootstrap&) = delete;
  Bootstrap& operator=(const Bootstrap&) = delete;
  [[nodiscard]] virtual const PeerInfo& peer(int rank) const = 0;
  /// Queues a parcel for `rank`; does not wait for it to be received. Throws PeerLost.
  virtual void send(int rank, std::uint64_t team, std::uint64_t sequence, Parcel parcel) = 0;
  /// Waits for the parcel that `rank` sent with the same team and sequence. Throws Timeout, PeerLost, OutOfMemory if
  /// descriptors in it were dropped at this process's limit, and what `stop`, called repeatedly, throws.
  [[nodiscard]] virtual Parcel receive(int rank, std::uint64_t team, std::uint64_t sequence, Clock::time_point deadline,
                                       const std::function<void()>& stop) = 0;
  /// As `receive`, without waiting: empty if the parcel has not arrived. Throws OutOfMemory likewise.
  [[nodiscard]] virtual std::optional<Parcel> try_receive(int rank, std::uint64_t team, std::uint64_t sequence) = 0;
  /// For a failed team: discards its parcels with a higher sequence than this one, including those still to arrive.
  /// Nobody will receive them, and their descriptors would keep memory allocated. Never blocks.
  virtual void drop_beyond(std::uint64_t team, std::uint64_t sequence) noexcept = 0;
  /// Waits until everything sent to these ranks has left this process, or until the deadline: a rank that does not read
  /// delays it. Throws what `stop`, called repeatedly, throws.
  virtual void flush(std::span<const int> ranks, Clock::time_point deadline, const std::function<void()>& stop) = 0;
  /// Never blocks, never throws.
  virtual void send_abort(int rank, const Abort& abort) noexcept = 0;
  virtual void listen(Listener listener) = 0;
  /// Makes peers treat this rank's later end as a loss, since it may not have completed all that they wait for.
  virtual void end_as_lost() noexcept = 0;

 protected:
  Bootstrap() = default;
};
static_assert(Pinned<Bootstrap>);

}  // namespace tandem
