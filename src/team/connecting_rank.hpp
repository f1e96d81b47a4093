// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tandem/team/bootstrap.hpp"

#include "team/peer_socket.hpp"
#include "team/wire.hpp"

namespace tandem {

/// A rank that connects to the others of its job, and for how long it tries.
struct RankOfJob {
  int rank = 0;
  int world_size = 1;
  std::string job;
  std::chrono::milliseconds timeout{0};
};

/// What rank 0 and the ranks that join it have in common while they connect to each other: the notes that they send,
/// and the errors.
class ConnectingRank {
 protected:
  using Clock = Bootstrap::Clock;

  static constexpr std::uint32_t protocol = 3;  // counts changes of these notes, and of Mesh's headers
  enum class Note : std::uint32_t { hello, welcome, ready, missing, roster, refused, peer, reached, made };
  enum class Reason : std::uint32_t { timeout, invalid_argument, peer_lost, failed };

  explicit ConnectingRank(const RankOfJob& self);

  /// The beginning of a note.
  [[nodiscard]] static WireWriter note(Note kind);
  static void put(WireWriter& writer, const PeerInfo& peer);
  [[nodiscard]] static PeerInfo get_peer(WireReader& reader);

  [[nodiscard]] int rank() const { return self_.rank; }
  [[nodiscard]] int size() const { return self_.world_size; }
  [[nodiscard]] PeerSocket& at(int rank) { return sockets_[static_cast<std::size_t>(rank)]; }
  /// From now on `socket` is the connection to `rank`.
  void connect(int rank, FileDescriptor socket);
  /// The timeout, for errors.
  [[nodiscard]] std::string patience() const;
  [[noreturn]] void throw_missing(const std::vector<int>& missing) const;
  [[noreturn]] static void throw_lost(const PeerInfo& peer, std::string_view when);

  RankOfJob self_;
  Clock::time_point deadline_;
  std::vector<PeerSocket> sockets_;  // by rank
};

}  // namespace tandem
