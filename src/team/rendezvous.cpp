// SPDX-License-Identifier: Apache-2.0
#include "team/rendezvous.hpp"

#include <algorithm>
#include <array>
#include <exception>
#include <optional>
#include <random>
#include <thread>
#include <unistd.h>
#include <utility>

#include "tandem/base/error.hpp"

#include "base/format.hpp"
#include "base/host_name.hpp"
#include "team/lost_peer.hpp"
#include "team/names.hpp"
#include "team/socket.hpp"
#include "team/wire.hpp"

namespace tandem {
namespace {

using Clock = Bootstrap::Clock;

constexpr std::uint32_t protocol = 2;
enum class Note : std::uint32_t { hello, welcome, ready, missing, roster, refused, link, reached, made };
enum class Reason : std::uint32_t { timeout, invalid_argument, peer_lost, failed };

WireWriter note(Note kind) {
  WireWriter writer;
  writer.number(static_cast<std::uint32_t>(kind));
  return writer;
}

void put(WireWriter& writer, const PeerInfo& peer) { writer.number(peer.rank).number(peer.pid).text(peer.host); }

PeerInfo get_peer(WireReader& reader) {
  PeerInfo peer;
  peer.rank = reader.number<int>();
  peer.pid = reader.number<std::int64_t>();
  peer.host = reader.text();
  return peer;
}

std::int64_t other_process(const FileDescriptor& socket) {
  const std::int64_t pid = credentials_of(socket).pid;
  return pid == ::getpid() ? 0 : pid;
}

std::string nonce() {
  std::random_device random;
  return format("{:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random());
}

std::string duration(std::chrono::milliseconds time) {
  return time.count() % 1000 == 0 ? format("{} s", time.count() / 1000) : format("{} ms", time.count());
}

[[noreturn]] void throw_missing(const Meeting& meeting, const std::vector<int>& missing) {
  throw Timeout(format("{} of {} did not come to job '{}' within {} (TANDEM_TIMEOUT), says rank {}",
                       name_ranks(missing), meeting.world_size, meeting.job, duration(meeting.timeout), meeting.rank),
                missing.size() == 1 ? missing[0] : -1);
}

[[noreturn]] void throw_lost(const PeerInfo& peer, std::string_view when) {
  throw lost_peer(format("{} is lost: it ended {}", to_string(peer), when), peer);
}

/// A guest's first message.
struct Hello {
  std::uint32_t version = 0;
  PeerInfo peer;  // this and the following are set only if the version matches
  int world_size = 0;
  std::string job;
};

/// Empty if the message is not a hello: then another program has connected.
std::optional<Hello> hello_of(std::span<const std::byte> message) {
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

class Party {
 public:
  explicit Party(const Meeting& meeting)
      : meeting_(meeting), deadline_(Clock::now() + meeting.timeout), links_(static_cast<std::size_t>(size())) {
    links_[static_cast<std::size_t>(rank())].info = {rank(), ::getpid(), host_name()};
  }

 protected:
  [[nodiscard]] int rank() const { return meeting_.rank; }
  [[nodiscard]] int size() const { return meeting_.world_size; }
  [[nodiscard]] Link& link(int rank) { return links_[static_cast<std::size_t>(rank)]; }

  Meeting meeting_;
  Clock::time_point deadline_;
  std::vector<Link> links_;
};

/// Rank 0, which admits the others.
class Host : Party {
 public:
  using Party::Party;

  std::vector<Link> run() {
    open();
    try {
      hear_all(Note::ready);
      // Closed before any rank can have finished: ranks that connect from now on belong to the next world.
      listener_ = {};
      strangers_.clear();
      WireWriter roster = note(Note::roster);
      for (const Link& link : links_) put(roster, link.info);
      tell_all(roster.take());
      // If a rank ends while the ranks connect to each other, rank 0 reports it to all: a rank that waits for it may
      // not see its end, and a rank that sees it and leaves must not be mistaken for the one that died.
      hear_all(Note::reached);
    } catch (const Timeout& error) {
      refuse_all(Reason::timeout, error.what(), {error.peer(), 0, ""});
      throw;
    } catch (const PeerLost& error) {
      refuse_all(Reason::peer_lost, error.what(), {error.rank(), error.pid(), error.host()});
      throw;
    } catch (const InvalidArgument& error) {
      refuse_all(Reason::invalid_argument, error.what(), {});
      throw;
    } catch (const std::exception& error) {
      refuse_all(Reason::failed, error.what(), link(0).info);
      throw;
    }
    tell_all(note(Note::made).take());
    return std::move(links_);
  }

 private:
  void open() {
    const std::string name = socket_name(meeting_.job, "0");
    const auto patience = std::min(deadline_, Clock::now() + std::chrono::seconds(1));
    while (true) {
      listener_ = listen_at(name);
      if (listener_) return;
      if (Clock::now() > patience) {
        throw InvalidArgument(
            format("another process takes in the ranks of job '{}' already (socket '@{}'): two jobs "
                   "of one user need two names, and only one process of a job is rank 0",
                   meeting_.job, name));
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }

  /// Waits until every guest has said `awaited`. Admits guests while `listener_` is open.
  void hear_all(Note awaited) {
    while (true) {
      std::vector<int> missing;
      for (int r = 1; r < size(); ++r) {
        if (said_[static_cast<std::size_t>(r)] != awaited) missing.push_back(r);
      }
      if (missing.empty()) return;
      turn(missing);
    }
  }

  void turn(const std::vector<int>& missing) {
    std::vector<int> sockets;
    if (listener_) sockets.push_back(listener_.get());
    for (const FileDescriptor& guest : strangers_) sockets.push_back(guest.get());
    for (const Link& link : links_) {
      if (link.socket) sockets.push_back(link.socket.get());
    }
    if (!wait_readable(sockets, deadline_)) throw_missing(meeting_, missing);

    if (listener_) take_in();
    for (int r = 1; r < size(); ++r) {
      if (link(r).socket) hear(r);
    }
  }

  void take_in() {
    while (FileDescriptor guest = accept_from(listener_)) {
      if (credentials_of(guest).same_user) strangers_.push_back(std::move(guest));
    }
    for (FileDescriptor& guest : strangers_) {
      const Received received = receive_message(guest);
      if (received.state == Received::State::nothing) continue;
      FileDescriptor taken = std::move(guest);
      if (received.state == Received::State::message) admit(std::move(taken), received.message);
    }
    std::erase_if(strangers_, [](const FileDescriptor& guest) { return !guest; });
  }

  void admit(FileDescriptor guest, std::span<const std::byte> message) {
    const std::optional<Hello> hello = hello_of(message);
    if (!hello) return;
    if (hello->version != protocol) {
      strangers_.push_back(std::move(guest));
      throw InvalidArgument(
          format("a rank of job '{}' speaks version {} of Tandem's protocol, rank 0 version {}: all "
                 "ranks must run one version of Tandem",
                 meeting_.job, hello->version, protocol));
    }
    if (hello->job != meeting_.job) return;  // another job, whose name has the same hash; it will retry
    const auto& [version, peer, world_size, job] = *hello;
    const bool known = peer.rank > 0 && peer.rank < size();
    if (world_size != size() || !known || link(peer.rank).socket) {
      const std::string why = world_size != size()
                                  ? format("it says that the world has {} ranks, rank 0 says {}", world_size, size())
                              : !known ? format("allowed: 1 to {}, and one rank 0", size() - 1)
                                       : format("{} is that rank already", to_string(link(peer.rank).info));
      links_.push_back({peer, std::move(guest), 0});  // so that `refuse_all` tells it, too
      throw InvalidArgument(format("{} cannot join job '{}': {}", to_string(peer), meeting_.job, why));
    }
    Link& joined = link(peer.rank);
    joined.info = peer;
    joined.process = other_process(guest);
    joined.socket = move_high(std::move(guest));
    send_message(joined.socket, note(Note::welcome).text(nonce_).take());
    tell_missing();
  }

  void hear(int r) {
    const Received received = receive_message(link(r).socket);
    if (received.state == Received::State::end) {
      throw_lost(link(r).info, listener_ ? "before the world was made" : "while the world was made");
    }
    if (received.state != Received::State::message) return;
    said_[static_cast<std::size_t>(r)] = static_cast<Note>(WireReader(received.message).number<std::uint32_t>());
  }

  void tell_all(std::span<const std::byte> message) const {
    for (const Link& link : links_) {
      if (link.socket) send_message(link.socket, message);  // if a rank is gone, `hear` reports it
    }
  }

  void tell_missing() {
    std::vector<int> missing;
    for (int r = 1; r < size(); ++r) {
      if (!link(r).socket) missing.push_back(r);
    }
    WireWriter writer = note(Note::missing);
    writer.number(static_cast<std::uint32_t>(missing.size()));
    for (const int r : missing) writer.number(r);
    tell_all(writer.take());
  }

  void refuse_all(Reason reason, const char* what, const PeerInfo& peer) noexcept {
    try {
      WireWriter writer = note(Note::refused);
      writer.number(static_cast<std::uint32_t>(reason)).text(what);
      put(writer, peer);
      const auto message = writer.take();
      tell_all(message);
      for (const FileDescriptor& guest : strangers_) send_message(guest, message);
      if (reason != Reason::timeout) refuse_latecomers(message);
    } catch (...) {  // then they see their sockets close
    }
  }

  /// Ranks that connect only after the refusal would otherwise wait for another world until their deadline.
  void refuse_latecomers(std::span<const std::byte> message) {
    const auto until = std::min(deadline_, Clock::now() + std::chrono::seconds(5));
    auto told = std::count_if(links_.begin(), links_.end(), [](const Link& link) { return bool(link.socket); }) +
                std::count_if(strangers_.begin(), strangers_.end(), [](const auto& guest) { return bool(guest); });
    // Rank 0 may have run out of descriptors; those of ranks that have been told are no longer needed.
    for (Link& link : links_) link.socket = {};
    strangers_.clear();
    while (told < size() - 1) {
      const std::array<int, 1> socket{listener_.get()};
      if (!wait_readable(socket, until)) return;
      FileDescriptor guest = accept_from(listener_);
      if (!guest || !credentials_of(guest).same_user) continue;
      send_message(guest, message);
      ++told;
    }
  }

  FileDescriptor listener_;
  std::string nonce_ = nonce();
  std::vector<FileDescriptor> strangers_;
  std::vector<Note> said_ = std::vector<Note>(static_cast<std::size_t>(size()));  // each rank's last; hello at first
};

/// Every other rank.
class Guest : Party {
 public:
  explicit Guest(const Meeting& meeting) : Party(meeting), verdict_(deadline_ + std::chrono::milliseconds(500)) {}

  std::vector<Link> run() {
    join();
    const std::string mine = socket_name(meeting_.job, format("{}/{}", nonce_, rank()));
    const FileDescriptor listener = listen_at(mine);
    if (!listener) throw DeviceError(format("the socket '@{}' is taken", mine));
    send_message(host().socket, note(Note::ready).take());
    take_roster();
    for (int r = 1; r < rank(); ++r) reach(r);
    // From here on no rank depends on this one: what it sent to the others is queued at their sockets.
    send_message(host().socket, note(Note::reached).take());
    expect_the_rest(listener);
    return std::move(links_);
  }

 private:
  Link& host() { return link(0); }

  /// Tries to connect to rank 0 until it has admitted this rank.
  void join() {
    const std::string name = socket_name(meeting_.job, "0");
    host().info = {0, 0, host_name()};
    auto pause = std::chrono::milliseconds(1);
    while (true) {
      FileDescriptor socket = connect_to(name);
      if (socket) {
        foreign_ = !credentials_of(socket).same_user;
        if (!foreign_ && greet(std::move(socket))) return;
      }
      if (Clock::now() >= deadline_) {
        if (foreign_) {
          throw Timeout(format("the socket of rank 0 of job '{}' belongs to another user; waited {}", meeting_.job,
                               duration(meeting_.timeout)),
                        0);
        }
        throw_missing(meeting_, {0});
      }
      std::this_thread::sleep_for(pause);
      pause = std::min(pause * 2, std::chrono::milliseconds(16));
    }
  }

  /// False if rank 0 closed the connection without admitting this rank: then it was an earlier world's rank 0.
  bool greet(FileDescriptor socket) {
    host().process = other_process(socket);
    host().socket = move_high(std::move(socket));
    WireWriter hello = note(Note::hello);
    hello.number(protocol);
    put(hello, link(rank()).info);
    hello.number(size()).text(meeting_.job);
    send_message(host().socket, hello.take());  // if the host has closed, it may have sent the reason before
    while (nonce_.empty()) {
      if (!next()) return false;
    }
    return true;
  }

  void take_roster() {
    while (!roster_) {
      if (!next()) throw_lost(host().info, "before the world was made");
    }
  }

  /// Waits for a message from rank 0 and handles it. False at the end of the connection.
  bool next() {
    const std::array<int, 1> socket{host().socket.get()};
    if (!wait_readable(socket, verdict_)) throw_missing(meeting_, missing_);
    return hear();
  }

  /// Handles one message from rank 0, if one has arrived. False at the end of the connection.
  bool hear() {
    const Received received = receive_message(host().socket);
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
        for (Link& link : links_) link.info = get_peer(reader);
        roster_ = true;
        break;
      case Note::made: made_ = true; break;
      default: break;
    }
    return true;
  }

  [[noreturn]] void throw_refused(WireReader& reader) {
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

  /// Connects to rank `r`. Whether it has ended is for rank 0 alone to report (see Host::run).
  void reach(int r) {
    const std::string name = socket_name(meeting_.job, format("{}/{}", nonce_, r));
    const auto hello = note(Note::link).number(rank()).text(nonce_).take();
    const std::array<int, 1> host_socket{host().socket.get()};
    while (true) {
      FileDescriptor socket = connect_to(name);
      if (socket && !credentials_of(socket).same_user) {
        throw DeviceError(format("the socket of rank {} of job '{}' belongs to another user", r, meeting_.job));
      }
      if (socket && send_message(socket, hello)) {
        link(r).process = other_process(socket);
        link(r).socket = move_high(std::move(socket));
        return;
      }
      // It was listening before the roster was sent, so it is gone now, or its backlog is full.
      if (wait_readable(host_socket, std::min(verdict_, Clock::now() + std::chrono::milliseconds(2)))) {
        if (!hear()) throw_lost(host().info, "while the world was made");
      } else if (Clock::now() >= verdict_) {
        throw_missing(meeting_, {r});
      }
    }
  }

  /// Accepts the connections of higher ranks, and waits until all ranks have connected to each other.
  void expect_the_rest(const FileDescriptor& listener) {
    bool over = false;  // rank 0 has ended, perhaps while telling the ranks that the world is made
    while (true) {
      std::vector<int> missing;
      for (int r = rank() + 1; r < size(); ++r) {
        if (!link(r).socket) missing.push_back(r);
      }
      // All connections have been accepted. Even if rank 0 has ended, ranks that it told are in the mesh already: this
      // rank joins it as well, where it learns of rank 0's end before it learns of ranks that leave because of that.
      if (missing.empty() && (made_ || over)) return;
      const std::array<int, 2> sockets{host().socket.get(), listener.get()};
      // Once the world is made, messages on the sockets are for the mesh: they must not be read here.
      const auto awaited = std::span(sockets).subspan(made_ || over ? 1 : 0);
      if (!wait_readable(awaited, over ? Clock::now() : verdict_)) {
        if (over) throw_lost(host().info, "while the world was made");
        throw_missing(meeting_, missing.empty() ? std::vector<int>{0} : missing);
      }
      if (!made_ && !over) over = !hear();
      if (FileDescriptor guest = accept_from(listener)) take_link(std::move(guest));
    }
  }

  void take_link(FileDescriptor socket) {
    if (!credentials_of(socket).same_user) return;
    const std::array<int, 1> connected{socket.get()};
    if (!wait_readable(connected, verdict_)) return;
    const Received received = receive_message(socket);
    if (received.state != Received::State::message) return;
    WireReader reader(received.message);
    if (reader.number<std::uint32_t>() != static_cast<std::uint32_t>(Note::link)) return;
    const int r = reader.number<int>();
    if (r <= rank() || r >= size() || reader.text() != nonce_ || link(r).socket) return;
    link(r).process = other_process(socket);
    link(r).socket = move_high(std::move(socket));
  }

  Clock::time_point
      verdict_;  // by then rank 0 has reported missing ranks, even if its deadline is a little later than this one's
  std::string nonce_;
  bool roster_ = false;
  bool made_ = false;
  bool foreign_ = false;
  std::vector<int> missing_{0};
};

}  // namespace

std::vector<Link> meet(const Meeting& meeting) {
  if (meeting.rank == 0) return Host(meeting).run();
  return Guest(meeting).run();
}

}  // namespace tandem
