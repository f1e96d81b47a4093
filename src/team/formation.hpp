// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "tandem/team/bootstrap.hpp"

#include "team/names.hpp"

namespace tandem {

/// How members of a team make a sub-team of it, on one rank. Each sends its list of ranks to everyone on it, and takes
/// one list from each; all must be equal. There is no order of these calls that all members of the parent share (a rank
/// outside of a sub-team need not call), so lists are queued for each pair of ranks; one whose sender has given up is
/// followed by its withdrawal. So making a team works after an attempt that failed, and after a rank was lost. Lists
/// tell how many of the receiver's their sender has taken: one whose sender has taken this rank's list of this attempt
/// is of a later attempt, and kept for that.
class Formation {
 public:
  using Clock = Bootstrap::Clock;
  /// Which of these world ranks was the first to be gone, if one is.
  using FirstGone = std::function<std::optional<Gone>(std::span<const int> world_ranks)>;

  /// `channel` is the key of these messages, equal on all members of the parent.
  Formation(Bootstrap& bootstrap, int self, std::uint64_t channel) noexcept
      : bootstrap_(bootstrap), self_(self), channel_(channel) {}

  /// Agrees with `members` (world ranks, in the new team's order, this one among them) on an id, which the first of
  /// them gives: `proposed` there. Throws InvalidArgument naming two members that listed different ranks, Timeout or
  /// PeerLost naming one that did not come.
  [[nodiscard]] std::uint64_t form(const std::vector<int>& members, std::uint64_t proposed, Clock::time_point deadline,
                                   const FirstGone& first_gone);
  /// The team that the last call agreed on has come to nothing. A member that gave up before it had read this rank's
  /// list is not to take that for one of its next attempt.
  void withdraw() noexcept;

 private:
  struct Offer {
    std::uint64_t attempt = 0;
    std::uint64_t id = 0;
    std::uint64_t taken = 0;  // how many messages of the receiver's its sender had taken
    bool withdrawn = false;
    std::vector<int> members;
  };
  struct Contradiction {
    int rank;
    std::vector<int> members;
  };

  void tell(int rank, const Offer& offer) noexcept;
  [[nodiscard]] static Offer parse(const Parcel& parcel);
  [[nodiscard]] Offer next(int rank, Clock::time_point deadline, const std::function<void()>& stop);
  [[nodiscard]] std::optional<Offer> try_next(int rank);
  [[nodiscard]] bool is_of_later_attempt(int rank, const Offer& offer) const;
  void drain(int rank, Clock::time_point deadline);
  /// The list that `rank` stands by. Throws Contradiction if it is not `mine`.
  [[nodiscard]] Offer accept(int rank, const std::vector<int>& mine, Clock::time_point deadline,
                             const FirstGone& first_gone);
  [[noreturn]] void contradict(const Contradiction& found);

  Bootstrap& bootstrap_;
  int self_;
  std::uint64_t channel_;
  std::uint64_t attempts_ = 0;
  Offer mine_;  // of the last attempt
  std::map<int, std::uint64_t> sent_;
  std::map<int, std::uint64_t> listed_;  // which of those sent is this attempt's list
  std::map<int, std::uint64_t> taken_;
  std::map<int, Offer> kept_;  // taken already, of an attempt yet to come
  std::set<int> heard_;        // whose list of this attempt is taken
};

}  // namespace tandem
