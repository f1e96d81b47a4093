// SPDX-License-Identifier: Apache-2.0
#include "team/rank_zero.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <exception>
#include <optional>
#include <random>
#include <thread>
#include <utility>

#include "tandem/base/error.hpp"

#include "base/format.hpp"
#include "team/lost_peer.hpp"
#include "team/names.hpp"
#include "team/socket.hpp"
#include "team/wire.hpp"

namespace tandem {
namespace {

std::string random_nonce() {
  std::random_device random;
  return format("{:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random());
}

}  // namespace

/// A joining rank's first message.
struct RankZero::Hello {
  std::uint32_t version = 0;
  PeerInfo peer;  // this and the following are set only if the version matches
  int world_size = 0;
  std::string job;

  /// Empty if the message is not a hello: then another program has connected.
  [[nodiscard]] static std::optional<Hello> from(std::span<const std::byte> message) {
    try {
      WireReader reader(message);
      if (reader.number<std::uint32_t>() != static_cast<std::uint32_t>(Note::hello)) return std::nullopt;
      Hello hello;
      hello.version = reader.number<std::uint32_t>();
      if (hello.version != protocol) return hello;
      hello.peer = get_peer(reader);
      hello.world_size = reader.number<int>();
      hello.job = reader.text();
      return hello;
    } catch (const DeviceError&) {  // the message is too short
      return std::nullopt;
    }
  }
};

RankZero::RankZero(const RankOfJob& self)
    : ConnectingRank(self), nonce_(random_nonce()), said_(static_cast<std::size_t>(size())) {}

std::vector<PeerSocket> RankZero::run() {
  open();
  try {
    hear_ready();
    // Closed before any rank can have finished: ranks that connect from now on belong to the next world.
    listener_ = {};
    strangers_.clear();
    WireWriter roster = note(Note::roster);
    for (const PeerSocket& each : sockets_) put(roster, each.info);
    tell_all(roster.take());
    // If a rank ends while the ranks connect to each other, rank 0 reports it to all: a rank that waits for it may not
    // see its end, and a rank that sees it and leaves must not be mistaken for the one that died.
    hear_all(Note::reached);
  } catch (const Timeout& error) {
    refuse_all(Reason::timeout, error.what(), {error.peer(), 0, ""});
    throw;
  } catch (const PeerLost& error) {
    refuse_all(Reason::peer_lost, error.what(), peer_of(error));
    throw;
  } catch (const InvalidArgument& error) {
    refuse_all(Reason::invalid_argument, error.what(), {});
    throw;
  } catch (const std::exception& error) {
    refuse_all(Reason::failed, error.what(), at(0).info);
    throw;
  }
  tell_all(note(Note::made).take());
  return std::move(sockets_);
}

void RankZero::open() {
  const std::string name = socket_name(self_.job, "0");
  const auto began = Clock::now();
  const auto until = std::min(deadline_, began + std::chrono::seconds(1));
  while (true) {
    listener_ = listen_at(name);
    if (listener_) return;
    if (Clock::now() > until) throw_taken(name);
    // Not at once: it may be the rank 0 of an earlier world, which is about to end.
    if (before_ == 0 && Clock::now() > began + std::chrono::milliseconds(100)) before_ = holder_of(name);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

std::int64_t RankZero::holder_of(const std::string& name) {
  try {
    const FileDescriptor socket = connect_to(name);
    if (socket && credentials_of(socket).same_user) return credentials_of(socket).pid;
  } catch (const DeviceError&) {  // it does not answer as Tandem would
  }
  return 0;
}

void RankZero::throw_taken(const std::string& name) const {
  const FileDescriptor socket = connect_to(name);
  if (socket && credentials_of(socket).same_user) {
    throw InvalidArgument(
        format("another process takes in the ranks of job '{}' already (socket '@{}'): two jobs "
               "of one user need two names, and only one process of a job is rank 0",
               self_.job, name));
  }
  throw DeviceError(format(
      "the socket '@{}', at which rank 0 of job '{}' takes in the others, {}; allowed: another job name (TANDEM_JOB)",
      name, self_.job,
      socket ? format("belongs to process {} of another user", credentials_of(socket).pid)
             : "is taken by a process that does not answer, perhaps of another user"));
}

void RankZero::hear_ready() {
  try {
    hear_all(Note::ready);
  } catch (const Timeout& error) {
    if (before_ == 0) throw;
    throw Timeout(format("{}; when it began, process {} took in the ranks of this job: only one process of a job is "
                         "rank 0",
                         error.what(), before_),
                  error.peer());
  }
}

void RankZero::hear_all(Note awaited) {
  while (true) {
    std::vector<int> missing;
    for (int r = 1; r < size(); ++r) {
      if (said_[static_cast<std::size_t>(r)] != awaited) missing.push_back(r);
    }
    if (missing.empty()) return;
    turn(missing);
  }
}

void RankZero::turn(const std::vector<int>& missing) {
  std::vector<int> sockets;
  if (listener_) sockets.push_back(listener_.get());
  for (const FileDescriptor& stranger : strangers_) sockets.push_back(stranger.get());
  for (const PeerSocket& each : sockets_) {
    if (each.socket) sockets.push_back(each.socket.get());
  }
  if (!wait_readable(sockets, deadline_)) throw_missing(missing);

  if (listener_) take_in();
  for (int r = 1; r < size(); ++r) {
    if (at(r).socket) hear(r);
  }
}

void RankZero::take_in() {
  while (FileDescriptor socket = accept_from(listener_)) {
    if (credentials_of(socket).same_user) strangers_.push_back(std::move(socket));
  }
  for (FileDescriptor& stranger : strangers_) {
    const Received received = receive_message(stranger);
    if (received.state == Received::State::nothing) continue;
    FileDescriptor taken = std::move(stranger);
    if (received.state == Received::State::message) admit(std::move(taken), received.message);
  }
  std::erase_if(strangers_, [](const FileDescriptor& stranger) { return !stranger; });
}

void RankZero::admit(FileDescriptor socket, std::span<const std::byte> message) {
  const std::optional<Hello> hello = Hello::from(message);
  if (!hello) return;
  if (hello->version != protocol) {
    strangers_.push_back(std::move(socket));
    throw InvalidArgument(
        format("a rank of job '{}' speaks version {} of Tandem's protocol, rank 0 version {}: all "
               "ranks must run one version of Tandem",
               self_.job, hello->version, protocol));
  }
  if (hello->job != self_.job) return;  // another job, whose name has the same hash; it will retry
  const auto& [version, peer, world_size, job] = *hello;
  const bool known = peer.rank > 0 && peer.rank < size();
  if (world_size != size() || !known || at(peer.rank).socket) {
    const std::string why = world_size != size()
                                ? format("it says that the world has {} ranks, rank 0 says {}", world_size, size())
                            : !known ? format("allowed: 1 to {}, and one rank 0", size() - 1)
                                     : format("{} is that rank already", to_string(at(peer.rank).info));
    sockets_.push_back({peer, std::move(socket), 0});  // so that `refuse_all` tells it, too
    throw InvalidArgument(format("{} cannot join job '{}': {}", to_string(peer), self_.job, why));
  }
  at(peer.rank).info = peer;
  connect(peer.rank, std::move(socket));
  send_message(at(peer.rank).socket, note(Note::welcome).text(nonce_).take());
  tell_missing();
}

void RankZero::hear(int rank) {
  const Received received = receive_message(at(rank).socket);
  if (received.state == Received::State::end) {
    throw_lost(at(rank).info, listener_ ? "before the world was made" : "while the world was made");
  }
  if (received.state != Received::State::message) return;
  said_[static_cast<std::size_t>(rank)] = static_cast<Note>(WireReader(received.message).number<std::uint32_t>());
}

void RankZero::tell_all(std::span<const std::byte> message) const {
  for (const PeerSocket& each : sockets_) {
    if (each.socket) send_message(each.socket, message);  // if a rank is gone, `hear` reports it
  }
}

void RankZero::tell_missing() {
  std::vector<int> missing;
  for (int r = 1; r < size(); ++r) {
    if (!at(r).socket) missing.push_back(r);
  }
  WireWriter writer = note(Note::missing);
  writer.number(static_cast<std::uint32_t>(missing.size()));
  for (const int r : missing) writer.number(r);
  tell_all(writer.take());
}

void RankZero::refuse_all(Reason reason, const char* what, const PeerInfo& peer) noexcept {
  try {
    WireWriter writer = note(Note::refused);
    writer.number(static_cast<std::uint32_t>(reason)).text(what);
    put(writer, peer);
    const auto message = writer.take();
    tell_all(message);
    for (const FileDescriptor& stranger : strangers_) send_message(stranger, message);
    if (reason != Reason::timeout) refuse_latecomers(message);
  } catch (...) {  // then they see their sockets close
  }
}

void RankZero::refuse_latecomers(std::span<const std::byte> message) {
  const auto until = std::min(deadline_, Clock::now() + std::chrono::seconds(5));
  auto told = std::count_if(sockets_.begin(), sockets_.end(), [](const auto& each) { return bool(each.socket); }) +
              std::count_if(strangers_.begin(), strangers_.end(), [](const auto& each) { return bool(each); });
  // Rank 0 may have run out of descriptors; those of ranks that have been told are no longer needed.
  for (PeerSocket& each : sockets_) each.socket = {};
  strangers_.clear();
  while (told < size() - 1) {
    const std::array<int, 1> listening{listener_.get()};
    if (!wait_readable(listening, until)) return;
    FileDescriptor socket = accept_from(listener_);
    if (!socket || !credentials_of(socket).same_user) continue;
    send_message(socket, message);
    ++told;
  }
}

}  // namespace tandem
