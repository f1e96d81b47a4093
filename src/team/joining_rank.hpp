// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "tandem/team/bootstrap.hpp"

#include "team/connecting_rank.hpp"
#include "team/peer_socket.hpp"
#include "team/wire.hpp"

namespace tandem {

/// Every rank but rank 0, which it asks to be admitted.
class JoiningRank : ConnectingRank {
 public:
  explicit JoiningRank(const RankOfJob& self);

  [[nodiscard]] std::vector<PeerSocket> run();

 private:
  [[nodiscard]] PeerSocket& rank_zero() { return at(0); }
  /// Tries to connect to rank 0 until it has admitted this rank.
  void join();
  /// False if rank 0 closed the connection without admitting this rank: then it was an earlier world's rank 0.
  [[nodiscard]] bool greet(FileDescriptor socket);
  void take_roster();
  /// Waits for a message from rank 0 and handles it. False at the end of the connection.
  [[nodiscard]] bool next();
  /// Handles one message from rank 0, if one has arrived. False at the end of the connection.
  [[nodiscard]] bool hear();
  [[noreturn]] void throw_refused(WireReader& reader) const;
  /// Connects to `rank`. Whether it has ended is for rank 0 alone to report (see RankZero::run).
  void reach(int rank);
  /// Accepts the connections of higher ranks, and waits until all ranks have connected to each other.
  void expect_the_rest(const FileDescriptor& listener);
  void accept_peer(FileDescriptor socket);

  // By then rank 0 has reported missing ranks, even if its deadline is a little later than this one's.
  Clock::time_point verdict_;
  std::string nonce_;
  bool roster_ = false;
  bool made_ = false;
  bool foreign_ = false;
  std::vector<int> missing_{0};
};

}  // namespace tandem
