// SPDX-License-Identifier: Apache-2.0
#include "team/joining_rank.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <span>
#include <thread>
#include <utility>

#include "tandem/base/error.hpp"

#include "base/format.hpp"
#include "base/host_name.hpp"
#include "team/lost_peer.hpp"
#include "team/names.hpp"
#include "team/socket.hpp"

namespace tandem {

JoiningRank::JoiningRank(const RankOfJob& self)
    : ConnectingRank(self), verdict_(deadline_ + std::chrono::milliseconds(500)) {}

std::vector<PeerSocket> JoiningRank::run() {
  join();
  const std::string mine = socket_name(self_.job, format("{}/{}", nonce_, rank()));
  const FileDescriptor listener = listen_at(mine);
  if (!listener) throw DeviceError(format("the socket '@{}' is taken", mine));
  send_message(rank_zero().socket, note(Note::ready).take());
  take_roster();
  for (int r = 1; r < rank(); ++r) reach(r);
  // From here on no rank depends on this one: what it sent to the others is queued at their sockets.
  send_message(rank_zero().socket, note(Note::reached).take());
  expect_the_rest(listener);
  return std::move(sockets_);
}

void JoiningRank::join() {
  const std::string name = socket_name(self_.job, "0");
  rank_zero().info = {0, 0, host_name()};
  auto pause = std::chrono::milliseconds(1);
  while (true) {
    FileDescriptor socket = connect_to(name);
    if (socket) {
      foreign_ = !credentials_of(socket).same_user;
      if (!foreign_ && greet(std::move(socket))) return;
    }
    if (Clock::now() >= deadline_) {
      if (foreign_) {
        throw Timeout(
            format("the socket of rank 0 of job '{}' belongs to another user; waited {}", self_.job, patience()), 0);
      }
      throw_missing({0});
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::milliseconds(16));
  }
}

bool JoiningRank::greet(FileDescriptor socket) {
  connect(0, std::move(socket));
  WireWriter hello = note(Note::hello);
  hello.number(protocol);
  put(hello, at(rank()).info);
  hello.number(size()).text(self_.job);
  send_message(rank_zero().socket, hello.take());  // if rank 0 has closed, it may have sent the reason before
  while (nonce_.empty()) {
    if (!next()) return false;
  }
  return true;
}

void JoiningRank::take_roster() {
  while (!roster_) {
    if (!next()) throw_lost(rank_zero().info, "before the world was made");
  }
}

bool JoiningRank::next() {
  const std::array<int, 1> socket{rank_zero().socket.get()};
  if (!wait_readable(socket, verdict_)) throw_missing(missing_);
  return hear();
}

bool JoiningRank::hear() {
  const Received received = receive_message(rank_zero().socket);
  if (received.state == Received::State::end) return false;
  if (received.state == Received::State::nothing) return true;
  WireReader reader(received.message);
  switch (static_cast<Note>(reader.number<std::uint32_t>())) {
    case Note::welcome: nonce_ = reader.text(); break;
    case Note::missing: {
      missing_.resize(reader.number<std::uint32_t>());
      for (int& r : missing_) r = reader.number<int>();
      if (missing_.empty()) missing_ = {0};
      break;
    }
    case Note::refused: throw_refused(reader); break;
    case Note::roster:
      for (PeerSocket& each : sockets_) each.info = get_peer(reader);
      roster_ = true;
      break;
    case Note::made: made_ = true; break;
    default: break;
  }
  return true;
}

void JoiningRank::throw_refused(WireReader& reader) const {
  const auto reason = static_cast<Reason>(reader.number<std::uint32_t>());
  const std::string what = format("{} (told to rank {})", reader.text(), rank());
  const PeerInfo peer = get_peer(reader);
  switch (reason) {
    case Reason::timeout: throw Timeout(what, peer.rank);
    case Reason::peer_lost: throw lost_peer(what, peer);
    case Reason::failed: throw Aborted(format("{} could not take in the others: {}", to_string(peer), what));
    default: throw InvalidArgument(what);
  }
}

void JoiningRank::reach(int rank) {
  const std::string name = socket_name(self_.job, format("{}/{}", nonce_, rank));
  const auto hello = note(Note::peer).number(this->rank()).text(nonce_).take();
  const std::array<int, 1> to_rank_zero{rank_zero().socket.get()};
  while (true) {
    FileDescriptor socket = connect_to(name);
    if (socket && !credentials_of(socket).same_user) {
      throw DeviceError(format("the socket of rank {} of job '{}' belongs to another user", rank, self_.job));
    }
    if (socket && send_message(socket, hello)) return connect(rank, std::move(socket));
    // It was listening before the roster was sent, so it is gone now, or its backlog is full.
    if (wait_readable(to_rank_zero, std::min(verdict_, Clock::now() + std::chrono::milliseconds(2)))) {
      if (!hear()) throw_lost(rank_zero().info, "while the world was made");
    } else if (Clock::now() >= verdict_) {
      throw_missing({rank});
    }
  }
}

void JoiningRank::expect_the_rest(const FileDescriptor& listener) {
  bool over = false;  // rank 0 has ended, perhaps while telling the ranks that the world is made
  while (true) {
    std::vector<int> missing;
    for (int r = rank() + 1; r < size(); ++r) {
      if (!at(r).socket) missing.push_back(r);
    }
    // All connections have been accepted. Even if rank 0 has ended, ranks that it told are in the mesh already: this
    // rank joins it as well, where it learns of rank 0's end before it learns of ranks that leave because of that.
    if (missing.empty() && (made_ || over)) return;
    const std::array<int, 2> sockets{rank_zero().socket.get(), listener.get()};
    // Once the world is made, messages on the sockets are for the mesh: they must not be read here.
    const auto awaited = std::span(sockets).subspan(made_ || over ? 1 : 0);
    if (!wait_readable(awaited, over ? Clock::now() : verdict_)) {
      if (over) throw_lost(rank_zero().info, "while the world was made");
      throw_missing(missing.empty() ? std::vector<int>{0} : missing);
    }
    if (!made_ && !over) over = !hear();
    if (FileDescriptor socket = accept_from(listener)) accept_peer(std::move(socket));
  }
}

void JoiningRank::accept_peer(FileDescriptor socket) {
  if (!credentials_of(socket).same_user) return;
  const std::array<int, 1> connected{socket.get()};
  if (!wait_readable(connected, verdict_)) return;
  const Received received = receive_message(socket);
  if (received.state != Received::State::message) return;
  WireReader reader(received.message);
  if (reader.number<std::uint32_t>() != static_cast<std::uint32_t>(Note::peer)) return;
  const int r = reader.number<int>();
  if (r <= rank() || r >= size() || reader.text() != nonce_ || at(r).socket) return;
  connect(r, std::move(socket));
}

}  // namespace tandem
