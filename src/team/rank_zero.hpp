// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tandem/team/bootstrap.hpp"

#include "team/connecting_rank.hpp"
#include "team/peer_socket.hpp"

namespace tandem {

/// Rank 0, which admits the other ranks of its job.
class RankZero : ConnectingRank {
 public:
  explicit RankZero(const RankOfJob& self);

  [[nodiscard]] std::vector<PeerSocket> run();

 private:
  struct Hello;

  void open();
  /// Waits until every other rank is ready; its Timeout adds who was rank 0 before, whom the missing may have joined.
  void hear_ready();
  /// The process that holds the name at which this rank would listen; 0: none that answers, or another user's.
  [[nodiscard]] static std::int64_t holder_of(const std::string& name);
  /// Says who holds the name at which this rank would listen.
  [[noreturn]] void throw_taken(const std::string& name) const;
  /// Waits until every other rank has said `awaited`. Admits ranks while `listener_` is open.
  void hear_all(Note awaited);
  void turn(const std::vector<int>& missing);
  void take_in();
  void admit(FileDescriptor socket, std::span<const std::byte> message);
  void hear(int rank);
  void tell_all(std::span<const std::byte> message) const;
  void tell_missing();
  void refuse_all(Reason reason, const char* what, const PeerInfo& peer) noexcept;
  /// Ranks that connect only after the refusal would otherwise wait for another world until their deadline.
  void refuse_latecomers(std::span<const std::byte> message);

  FileDescriptor listener_;
  std::int64_t before_ = 0;  // a process that took in the ranks of this job when this one began; 0: none
  std::string nonce_;
  std::vector<FileDescriptor> strangers_;
  std::vector<Note> said_;  // each rank's last; hello at first
};

}  // namespace tandem
