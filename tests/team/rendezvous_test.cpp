// SPDX-License-Identifier: Apache-2.0
// A rank that dies while the ranks meet.
#include <array>
#include <chrono>
#include <cstdint>
#include <gtest/gtest.h>
#include <string>
#include <thread>
#include <unistd.h>

#include "tandem/base/error.hpp"
#include "tandem/team/world.hpp"

#include "support/errors.hpp"
#include "support/ranks.hpp"
#include "team/another_world.hpp"
#include "team/socket.hpp"
#include "team/wire.hpp"

namespace tandem {
namespace {

using namespace std::chrono_literals;
using testing::another;
using testing::expect_says;
using testing::run_ranks;

// Notes of src/team/rendezvous.cpp.
enum class Note : std::uint32_t { hello, welcome, ready, missing, roster, refused };
constexpr std::uint32_t protocol = 2;

WireWriter note(Note kind) {
  WireWriter writer;
  writer.number(static_cast<std::uint32_t>(kind));
  return writer;
}

/// Joins as this rank does, says that it is ready, and is gone as soon as it knows who there is. Gives the last note
/// that it got.
Note join_and_die(const Launch& launch) {
  const std::string name = socket_name(launch.job, "0");
  const auto deadline = std::chrono::steady_clock::now() + 20s;
  FileDescriptor host;
  while (!(host = connect_to(name)) && std::chrono::steady_clock::now() < deadline) std::this_thread::sleep_for(1ms);
  WireWriter hello = note(Note::hello);
  hello.number(protocol).number(launch.rank).number(std::int64_t{::getpid()}).text("here");
  hello.number(launch.world_size).text(launch.job);
  send_message(host, hello.take());
  send_message(host, note(Note::ready).take());
  Note last = Note::hello;
  const std::array<int, 1> sockets{host.get()};
  while (last != Note::roster && last != Note::refused && wait_readable(sockets, deadline)) {
    const Received received = receive_message(host);
    if (received.state == Received::State::end) break;
    if (received.state == Received::State::message) {
      last = static_cast<Note>(WireReader(received.message).number<std::uint32_t>());
    }
  }
  return last;
}

TEST(Rendezvous, ARankThatDiesWhileTheOthersLinkUpIsNamedOnAllAtOnce) {
  run_ranks(4, [](World& world) {
    InitOptions options = another(world, ".dies");
    options.env->timeout = 30s;
    const auto before = std::chrono::steady_clock::now();
    if (world.rank() == 2) {
      EXPECT_EQ(join_and_die(*options.launch), Note::roster);
    } else {
      try {
        static_cast<void>(init(options));
        ADD_FAILURE() << "nothing was thrown";
      } catch (const PeerLost& error) {
        EXPECT_EQ(error.rank(), 2) << error.what();
        expect_says(error.what(), {"rank 2 ", "is lost"});
      }
      EXPECT_LT(std::chrono::steady_clock::now() - before, 20s);
    }
    world.team().barrier();
  });
}

}  // namespace
}  // namespace tandem
