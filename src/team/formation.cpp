// SPDX-License-Identifier: Apache-2.0
#include "team/formation.hpp"

#include <algorithm>
#include <exception>

#include "tandem/base/error.hpp"

#include "base/format.hpp"
#include "team/lost_peer.hpp"
#include "team/wire.hpp"

namespace tandem {
namespace {

/// How long to wait for the withdrawal of a list that differs: its sender may be about to learn of the same lost rank.
constexpr auto grace = std::chrono::milliseconds(200);

}  // namespace

std::uint64_t Formation::form(const std::vector<int>& members, std::uint64_t proposed, Clock::time_point deadline,
                              const FirstGone& first_gone) {
  mine_ = {++attempts_, proposed, 0, false, members};
  heard_.clear();
  listed_.clear();
  // Sent to all before anything can fail, so that every rank that lists this one gets its list.
  for (const int rank : members) {
    if (rank == self_) continue;
    tell(rank, mine_);
    listed_[rank] = sent_[rank];
  }
  std::uint64_t id = proposed;
  try {
    while (heard_.size() + 1 < members.size()) {  // again, if one that was received is withdrawn meanwhile
      for (const int rank : members) {
        if (rank == self_ || heard_.contains(rank)) continue;
        const Offer theirs = accept(rank, members, deadline, first_gone);
        if (rank == members.front()) id = theirs.id;
      }
      look_around(self_, first_gone);
    }
  } catch (const Contradiction& found) {
    contradict(found);
  } catch (const std::exception& error) {
    withdraw(error);
    throw;
  }
  return id;
}

void Formation::withdraw(const std::exception& why) noexcept {
  const auto* const loss = dynamic_cast<const PeerLost*>(&why);
  mine_.withdrawn = true;
  mine_.lost = loss == nullptr ? -1 : loss->rank();
  try {
    mine_.why = why.what();
  } catch (...) {  // no memory for the reason
  }
  for (const int rank : mine_.members) {
    if (rank != self_) tell(rank, mine_);
  }
}

Formation::Offer Formation::accept(int rank, const std::vector<int>& mine, Clock::time_point deadline,
                                   const FirstGone& first_gone) {
  std::optional<Offer> doubtful;
  Clock::time_point doubt_ends;
  std::optional<Offer> outdated;  // it lists a rank that is gone
  const auto stop = [&] {
    expect_all_here(first_gone);
    // Another member may have given up, and `rank` for that reason, without having this rank's list.
    look_around(rank, first_gone);
  };
  while (true) {
    Offer offer;
    try {
      offer = next(rank, doubtful ? std::min(deadline, doubt_ends) : deadline, stop);
    } catch (const Timeout&) {
      if (doubtful) throw Contradiction{rank, doubtful->members};
      throw;
    } catch (...) {  // the list that differs may be the next attempt's, for instance without a rank that is lost
      if (doubtful) kept_[rank].push_front(std::move(*doubtful));
      throw;
    }
    if (doubtful && is_of_later_attempt(rank, offer)) {  // so its sender has not withdrawn the list that differs
      kept_[rank].push_front(std::move(offer));
      throw Contradiction{rank, doubtful->members};
    }
    if (outdated && is_of_later_attempt(rank, offer)) {  // its sender gave up on this rank's list, as one that differs
      kept_[rank].push_front(std::move(offer));
      throw Contradiction{rank, outdated->members};
    }
    if (offer.withdrawn) {
      heed(rank, offer, first_gone);
      if (doubtful && doubtful->attempt == offer.attempt) doubtful.reset();
      if (outdated && outdated->attempt == offer.attempt) outdated.reset();
      continue;
    }
    if (offer.members == mine) {
      std::optional<Offer> following = try_next(rank);
      if (following && following->withdrawn && following->attempt == offer.attempt) {
        heed(rank, *following, first_gone);
        continue;
      }
      heard_.insert(rank);
      if (!following) return offer;
      if (is_of_later_attempt(rank, *following)) {
        kept_[rank].push_front(std::move(*following));
        return offer;
      }
      if (following->members != mine) throw Contradiction{rank, following->members};
      return *following;
    }
    if (first_gone(offer.members)) {  // its sender will give up on it
      outdated = std::move(offer);
      continue;
    }
    doubtful = std::move(offer);
    doubt_ends = Clock::now() + grace;
  }
}

void Formation::look_around(int awaited, const FirstGone& first_gone) {
  for (const int other : mine_.members) {
    if (other == self_ || other == awaited) continue;
    while (fetch(other)) heed(other, kept_[other].back(), first_gone);
  }
}

void Formation::heed(int sender, const Offer& offer, const FirstGone& first_gone) {
  if (!offer.withdrawn) return;
  if (!had_mine(sender, offer)) {
    // Its next list answers this rank's, which it has yet to read: with another id, perhaps.
    heard_.erase(sender);
    return;
  }
  expect_all_here(first_gone);  // this rank may have heard of the same loss
  const std::string what = format("told by {}: {}", to_string(bootstrap_.peer(sender)), offer.why);
  if (offer.lost < 0) throw Aborted(what);
  throw lost_peer(what, bootstrap_.peer(offer.lost));
}

void Formation::expect_all_here(const FirstGone& first_gone) const {
  const auto gone = first_gone(mine_.members);
  if (!gone) return;
  const PeerInfo& peer = bootstrap_.peer(gone->rank);
  throw lost_peer(tell_gone(peer, gone->left), peer);
}

void Formation::contradict(const Contradiction& found) {
  // Ranks that only the other list names may be waiting for this rank: its list tells them that the attempt fails. What
  // all these ranks sent for this attempt is received here, so that the next attempt does not find it.
  std::vector<int> others = found.members;
  for (const int rank : found.members) {
    const bool told = std::find(mine_.members.begin(), mine_.members.end(), rank) != mine_.members.end();
    if (!told) tell(rank, mine_);
  }
  others.insert(others.end(), mine_.members.begin(), mine_.members.end());
  std::sort(others.begin(), others.end());
  others.erase(std::unique(others.begin(), others.end()), others.end());
  const auto deadline = Clock::now() + grace;
  for (const int rank : others) {
    if (rank != self_ && rank != found.rank && !heard_.contains(rank)) drain(rank, deadline);
  }
  throw InvalidArgument(
      format("the members of a new team list different ranks: {} lists {}, {} lists {} (ranks of "
             "the world); allowed: the same ranks in the same order",
             to_string(bootstrap_.peer(self_)), list_ranks(mine_.members), to_string(bootstrap_.peer(found.rank)),
             list_ranks(found.members)));
}

/// Receives and discards what `rank` sent for this attempt, if it arrives in time.
void Formation::drain(int rank, Clock::time_point deadline) {
  try {
    while (true) {
      Offer offer = next(rank, deadline, nullptr);
      if (is_of_later_attempt(rank, offer)) {
        kept_[rank].push_front(std::move(offer));
        return;
      }
      if (!offer.withdrawn) deadline = {};  // from here on, only what has already arrived
    }
  } catch (const Error&) {  // nothing more arrives
  }
}

Formation::Offer Formation::next(int rank, Clock::time_point deadline, const std::function<void()>& stop) {
  if (auto offer = try_next(rank)) return std::move(*offer);
  const Parcel parcel = bootstrap_.receive(rank, channel_, taken_[rank] + 1, deadline, stop);
  ++taken_[rank];
  return parse(parcel);
}

std::optional<Formation::Offer> Formation::try_next(int rank) {
  std::deque<Offer>& kept = kept_[rank];
  if (kept.empty() && !fetch(rank)) return std::nullopt;
  Offer offer = std::move(kept.front());
  kept.pop_front();
  return offer;
}

bool Formation::fetch(int rank) {
  const std::optional<Parcel> parcel = bootstrap_.try_receive(rank, channel_, taken_[rank] + 1);
  if (!parcel) return false;
  ++taken_[rank];
  kept_[rank].push_back(parse(*parcel));
  return true;
}

bool Formation::had_mine(int rank, const Offer& offer) const {
  const auto listed = listed_.find(rank);
  return listed != listed_.end() && offer.taken >= listed->second;
}

bool Formation::is_of_later_attempt(int rank, const Offer& offer) const {
  return !offer.withdrawn && had_mine(rank, offer);
}

void Formation::tell(int rank, const Offer& offer) noexcept {
  try {
    WireWriter writer;
    writer.number(offer.attempt).number(offer.id).number(taken_[rank] - kept_[rank].size());
    writer.number(offer.withdrawn ? 1 : 0);
    writer.number(static_cast<std::uint64_t>(offer.members.size()));
    for (const int member : offer.members) writer.number(member);
    writer.text(offer.why).number(offer.lost);
    std::uint64_t& sent = sent_[rank];
    bootstrap_.send(rank, channel_, sent + 1, Parcel{writer.take(), {}});
    ++sent;        // not if the send threw: the receiver expects consecutive numbers
  } catch (...) {  // if the peer is gone, waiting for its list reports that
  }
}

Formation::Offer Formation::parse(const Parcel& parcel) {
  WireReader reader(parcel.bytes);
  Offer offer;
  offer.attempt = reader.number<std::uint64_t>();
  offer.id = reader.number<std::uint64_t>();
  offer.taken = reader.number<std::uint64_t>();
  offer.withdrawn = reader.number<int>() != 0;
  offer.members.resize(reader.number<std::uint64_t>());
  for (int& member : offer.members) member = reader.number<int>();
  offer.why = reader.text();
  offer.lost = reader.number<int>();
  return offer;
}

}  // namespace tandem
