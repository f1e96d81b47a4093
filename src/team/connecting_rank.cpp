// SPDX-License-Identifier: Apache-2.0
#include "team/connecting_rank.hpp"

#include <unistd.h>
#include <utility>

#include "tandem/base/error.hpp"

#include "base/format.hpp"
#include "base/host_name.hpp"
#include "team/lost_peer.hpp"
#include "team/names.hpp"
#include "team/socket.hpp"

namespace tandem {

ConnectingRank::ConnectingRank(const RankOfJob& self)
    : self_(self), deadline_(Clock::now() + self.timeout), sockets_(static_cast<std::size_t>(size())) {
  at(rank()).info = {rank(), ::getpid(), host_name()};
}

WireWriter ConnectingRank::note(Note kind) {
  WireWriter writer;
  writer.number(static_cast<std::uint32_t>(kind));
  return writer;
}

void ConnectingRank::put(WireWriter& writer, const PeerInfo& peer) {
  writer.number(peer.rank).number(peer.pid).text(peer.host);
}

PeerInfo ConnectingRank::get_peer(WireReader& reader) {
  PeerInfo peer;
  peer.rank = reader.number<int>();
  peer.pid = reader.number<std::int64_t>();
  peer.host = reader.text();
  return peer;
}

void ConnectingRank::connect(int rank, FileDescriptor socket) {
  const std::int64_t process = credentials_of(socket).pid;
  at(rank).process = process == ::getpid() ? 0 : process;
  at(rank).socket = move_high(std::move(socket));
}

std::string ConnectingRank::patience() const {
  const auto time = self_.timeout.count();
  return time % 1000 == 0 ? format("{} s", time / 1000) : format("{} ms", time);
}

void ConnectingRank::throw_missing(const std::vector<int>& missing) const {
  throw Timeout(format("{} of {} did not come to job '{}' within {} (TANDEM_TIMEOUT), says rank {}",
                       name_ranks(missing), size(), self_.job, patience(), rank()),
                missing.size() == 1 ? missing[0] : -1);
}

void ConnectingRank::throw_lost(const PeerInfo& peer, std::string_view when) {
  throw lost_peer(format("{} is lost: it ended {}", to_string(peer), when), peer);
}

}  // namespace tandem
