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

#include "tandem/base/export.hpp"
#include "tandem/team/file_descriptor.hpp"

namespace tandem {

/// Bytes, and within a node file descriptors, from one rank to another.
struct Parcel {
  std::vector<std::byte> bytes;
  std::vector<FileDescriptor> descriptors;
};

/// Who a rank is, for errors and for what only neighbours can do.
struct PeerInfo {
  int rank = 0;
  std::int64_t pid = 0;
  std::string host;
};

/// That a rank ends a team, for all of its members.
struct Abort {
  std::uint64_t team = 0;
  int lost = -1;  ///< because of this rank, whose process or world has ended; -1: because of something else
  std::string reason;
};

/// How the ranks of a world talk while they set things up, and how each hears that another is gone. One node: a mesh of
/// Unix sockets. Several nodes will be another implementation, where a peer on another node takes no descriptors.
class TANDEM_API Bootstrap {
 public:
  using Clock = std::chrono::steady_clock;
  /// Called from a thread of the bootstrap's: once for each peer that is lost (`clean` if it said goodbye), and for
  /// each abort that a peer sent.
  struct Listener {
    std::function<void(int peer, bool clean)> lost;
    std::function<void(int peer, const Abort& abort)> aborted;
  };

  virtual ~Bootstrap();
  [[nodiscard]] virtual const PeerInfo& peer(int rank) const = 0;
  /// Queues a parcel for `rank`; does not wait for it to be received. Throws PeerLost.
  virtual void send(int rank, std::uint64_t team, std::uint64_t sequence, Parcel parcel) = 0;
  /// The parcel that `rank` sent under the same team and sequence. Throws Timeout, PeerLost, OutOfMemory where
  /// descriptors in it were lost for want of room, and what `stop` throws, which is asked again and again.
  [[nodiscard]] virtual Parcel receive(int rank, std::uint64_t team, std::uint64_t sequence, Clock::time_point deadline,
                                       const std::function<void()>& stop) = 0;
  /// The same if it has come already; empty if not.
  [[nodiscard]] virtual std::optional<Parcel> try_receive(int rank, std::uint64_t team, std::uint64_t sequence) = 0;
  /// Lets go of all parcels of a team that has failed but those of a sequence up to this one, and of what comes later:
  /// else the memory that their descriptors name would stay, though nobody is to receive them. Never blocks.
  virtual void drop_beyond(std::uint64_t team, std::uint64_t sequence) noexcept = 0;
  /// Waits until what was sent to these ranks has left this process, or until the deadline: one that reads nothing may
  /// hold it up. Throws what `stop` throws, which is asked again and again.
  virtual void flush(std::span<const int> ranks, Clock::time_point deadline, const std::function<void()>& stop) = 0;
  /// Never blocks, never throws.
  virtual void send_abort(int rank, const Abort& abort) noexcept = 0;
  virtual void listen(Listener listener) = 0;
  /// This rank may not have done all that its peers wait for: its end, later, is to be heard as a loss.
  virtual void end_as_lost() noexcept = 0;
};

}  // namespace tandem
