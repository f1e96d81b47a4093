// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "tandem/team/bootstrap.hpp"

#include "team/names.hpp"

namespace tandem {

/// One rank's part in making sub-teams of a team. Each member of a sub-team sends its list of ranks to all ranks in it,
/// and receives one list from each; all must be equal. The parent's members do not make these calls in a common order
/// (a rank outside a sub-team need not call), so lists are queued for each pair of ranks, and a sender that gives up
/// sends a withdrawal of its list, with the reason. So a team can be made after a failed attempt, and after a rank was
/// lost. Each message says how many of the receiver's messages its sender has received. If these include this rank's
/// list of the current attempt, a list belongs to a later attempt, and is kept for that; a withdrawal ends this
/// attempt, since its sender will not answer that list again. If they do not, its sender will take that list for an
/// answer to its next one: so a withdrawn list counts no more, even if it has been received, and the next one replaces
/// it. So messages of all members are looked through meanwhile.
class Formation {
 public:
  using Clock = Bootstrap::Clock;
  /// Returns which of these world ranks was the first to be gone, if any is.
  using FirstGone = std::function<std::optional<Gone>(std::span<const int> world_ranks)>;

  /// `channel` is the key under which these messages are sent, equal on all members of the parent.
  Formation(Bootstrap& bootstrap, int self, std::uint64_t channel) noexcept
      : bootstrap_(bootstrap), self_(self), channel_(channel) {}

  /// Agrees with `members` (world ranks, in the new team's order, including this one) on an id: the first member's
  /// `proposed`. Throws InvalidArgument naming two members that listed different ranks, Timeout or PeerLost naming one
  /// whose list did not arrive, or why a member gave up: Aborted, or if a rank was lost, PeerLost.
  [[nodiscard]] std::uint64_t form(const std::vector<int>& members, std::uint64_t proposed, Clock::time_point deadline,
                                   const FirstGone& first_gone);
  /// Withdraws this rank's list: the team that the last call agreed on could not be made. A member that gave up before
  /// it had read that list must not mistake it for one of its next attempt; one that is still to read it hears `why`,
  /// and which rank was lost, if that is a PeerLost.
  void withdraw(const std::exception& why) noexcept;

 private:
  struct Offer {
    std::uint64_t attempt = 0;
    std::uint64_t id = 0;
    std::uint64_t taken = 0;  // how many of the receiver's messages the sender had received
    bool withdrawn = false;
    std::vector<int> members;
    std::string why = {};  // it was withdrawn
    int lost = -1;         // the world rank whose loss is the reason; -1: another reason
  };
  struct Contradiction {
    int rank;
    std::vector<int> members;
  };

  void tell(int rank, const Offer& offer) noexcept;
  [[nodiscard]] static Offer parse(const Parcel& parcel);
  [[nodiscard]] Offer next(int rank, Clock::time_point deadline, const std::function<void()>& stop);
  [[nodiscard]] std::optional<Offer> try_next(int rank);
  /// Appends the next message of `rank` to `kept_`. False if none has arrived.
  [[nodiscard]] bool fetch(int rank);
  /// Whether `rank` had received this attempt's list of this rank when it sent `offer`.
  [[nodiscard]] bool had_mine(int rank, const Offer& offer) const;
  [[nodiscard]] bool is_of_later_attempt(int rank, const Offer& offer) const;
  void drain(int rank, Clock::time_point deadline);
  /// The list of `rank` that it has not withdrawn. Throws Contradiction if that is not `mine`.
  [[nodiscard]] Offer accept(int rank, const std::vector<int>& mine, Clock::time_point deadline,
                             const FirstGone& first_gone);
  /// Heeds what members other than `awaited` have sent meanwhile.
  void look_around(int awaited, const FirstGone& first_gone);
  /// Takes notice of `offer`, if it is a withdrawal: its sender gave up this attempt, or its list is yet to come.
  void heed(int sender, const Offer& offer, const FirstGone& first_gone);
  /// A rank that already knows of a loss no longer makes this team, so its list would never arrive.
  void expect_all_here(const FirstGone& first_gone) const;
  [[noreturn]] void contradict(const Contradiction& found);

  Bootstrap& bootstrap_;
  int self_;
  std::uint64_t channel_;
  std::uint64_t attempts_ = 0;
  Offer mine_;  // of the last attempt
  std::map<int, std::uint64_t> sent_;
  std::map<int, std::uint64_t> listed_;  // the number, among those sent, of this attempt's list
  std::map<int, std::uint64_t> taken_;
  std::map<int, std::deque<Offer>> kept_;  // received early, in order; for peers these do not count as received
  std::set<int> heard_;                    // the ranks whose list of this attempt has been received, and stands
};

}  // namespace tandem
