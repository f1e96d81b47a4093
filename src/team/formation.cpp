// SPDX-License-Identifier: Apache-2.0
#include "team/formation.hpp"

#include <algorithm>

#include "tandem/base/error.hpp"

#include "base/format.hpp"
#include "team/names.hpp"
#include "team/wire.hpp"

namespace tandem {
namespace {

/// How long a list that differs may still be withdrawn: its sender may be about to hear what this rank knows.
constexpr auto grace = std::chrono::milliseconds(200);

}  // namespace

std::uint64_t Formation::form(const std::vector<int>& members, std::uint64_t proposed, Clock::time_point deadline,
                              const FirstGone& first_gone) {
  Offer mine{++attempts_, proposed, false, members};
  // To everyone before anything can fail: whoever lists this rank finds its list.
  for (const int rank : members) {
    if (rank != self_) tell(rank, mine);
  }
  std::uint64_t id = proposed;
  try {
    for (const int rank : members) {
      if (rank == self_) continue;
      const Offer theirs = accept(rank, members, deadline, first_gone);
      if (rank == members.front()) id = theirs.id;
    }
  } catch (const Contradiction& found) {
    contradict(mine, found, first_gone);
  } catch (...) {
    mine.withdrawn = true;
    for (const int rank : members) {
      if (rank != self_) tell(rank, mine);
    }
    throw;
  }
  return id;
}

Formation::Offer Formation::accept(int rank, const std::vector<int>& mine, Clock::time_point deadline,
                                   const FirstGone& first_gone) {
  std::optional<Offer> doubtful;
  Clock::time_point doubt_ends;
  // Whoever has heard of the loss already makes this team no more: its list would not come.
  const auto stop = [&] {
    const auto gone = first_gone(mine);
    if (!gone) return;
    const PeerInfo& peer = bootstrap_.peer(*gone);
    throw PeerLost(format("{} is lost: its process or its world ended", to_string(peer)), peer.rank, peer.host,
                   peer.pid);
  };
  while (true) {
    Offer offer;
    try {
      offer = parse(bootstrap_.receive(rank, channel_, taken_[rank] + 1,
                                       doubtful ? std::min(deadline, doubt_ends) : deadline, stop));
    } catch (const Timeout&) {
      if (doubtful) throw Contradiction{rank, doubtful->members};
      throw;
    }
    ++taken_[rank];
    if (offer.withdrawn) {
      if (doubtful && doubtful->attempt == offer.attempt) doubtful.reset();
      continue;
    }
    if (offer.members == mine) {
      auto following = bootstrap_.try_receive(rank, channel_, taken_[rank] + 1);
      if (!following) return offer;
      ++taken_[rank];
      const Offer next = parse(*following);
      if (next.withdrawn && next.attempt == offer.attempt) continue;
      if (next.members != mine) throw Contradiction{rank, next.members};
      return next;
    }
    if (first_gone(offer.members)) continue;  // its sender will give up on it
    doubtful = std::move(offer);
    doubt_ends = Clock::now() + grace;
  }
}

void Formation::contradict(const Offer& mine, const Contradiction& found, const FirstGone& first_gone) {
  // Those whom the other side lists wait for this rank: its list tells them why they wait in vain. And what the others
  // sent for this attempt is taken, so that the next one starts clean.
  std::vector<int> others = found.members;
  for (const int rank : found.members) {
    const bool told = std::find(mine.members.begin(), mine.members.end(), rank) != mine.members.end();
    if (!told) tell(rank, mine);
  }
  others.insert(others.end(), mine.members.begin(), mine.members.end());
  std::sort(others.begin(), others.end());
  others.erase(std::unique(others.begin(), others.end()), others.end());
  const auto deadline = Clock::now() + grace;
  for (const int rank : others) {
    if (rank == self_ || rank == found.rank) continue;
    try {
      (void)accept(rank, mine.members, deadline, first_gone);
    } catch (const Contradiction&) {  // named above already, by one that came earlier
    } catch (const Error&) {
    }
  }
  throw InvalidArgument(
      format("the members of a new team list different ranks: {} lists {}, {} lists {} (ranks of "
             "the world); allowed: the same ranks in the same order",
             to_string(bootstrap_.peer(self_)), list_ranks(mine.members), to_string(bootstrap_.peer(found.rank)),
             list_ranks(found.members)));
}

void Formation::tell(int rank, const Offer& offer) noexcept {
  try {
    WireWriter writer;
    writer.number(offer.attempt).number(offer.id).number(offer.withdrawn ? 1 : 0);
    writer.number(static_cast<std::uint64_t>(offer.members.size()));
    for (const int member : offer.members) writer.number(member);
    bootstrap_.send(rank, channel_, ++sent_[rank], Parcel{writer.take(), {}});
  } catch (...) {  // a peer that is gone is found so by who waits for it
  }
}

Formation::Offer Formation::parse(const Parcel& parcel) {
  WireReader reader(parcel.bytes);
  Offer offer;
  offer.attempt = reader.number<std::uint64_t>();
  offer.id = reader.number<std::uint64_t>();
  offer.withdrawn = reader.number<int>() != 0;
  offer.members.resize(reader.number<std::uint64_t>());
  for (int& member : offer.members) member = reader.number<int>();
  return offer;
}

}  // namespace tandem
