// SPDX-License-Identifier: Apache-2.0
// Failures while the ranks of a job find and connect to each other.
#include "team/connect_ranks.hpp"

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <string>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>
#include <vector>

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
using testing::refusal;
using testing::run_ranks;

// The first kinds of notes in src/team/connecting_rank.hpp, and its protocol's version.
enum class Note : std::uint32_t { hello, welcome, ready, missing, roster, refused };
constexpr std::uint32_t protocol = 3;

WireWriter note(Note kind) {
  WireWriter writer;
  writer.number(static_cast<std::uint32_t>(kind));
  return writer;
}

/// Joins as this rank, says that it is ready, and disconnects once it has got the roster or was refused. Returns the
/// kind of the last note that it got.
Note join_and_die(const Launch& launch) {
  const std::string name = socket_name(launch.job, "0");
  const auto deadline = std::chrono::steady_clock::now() + 20s;
  FileDescriptor rank_zero;
  while (!(rank_zero = connect_to(name)) && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(1ms);
  }
  WireWriter hello = note(Note::hello);
  hello.number(protocol).number(launch.rank).number(std::int64_t{::getpid()}).text("here");
  hello.number(launch.world_size).text(launch.job);
  send_message(rank_zero, hello.take());
  send_message(rank_zero, note(Note::ready).take());
  Note last = Note::hello;
  const std::array<int, 1> sockets{rank_zero.get()};
  while (last != Note::roster && last != Note::refused && wait_readable(sockets, deadline)) {
    const Received received = receive_message(rank_zero);
    if (received.state == Received::State::end) break;
    if (received.state == Received::State::message) {
      last = static_cast<Note>(WireReader(received.message).number<std::uint32_t>());
    }
  }
  return last;
}

TEST(ConnectRanks, ARankThatDiesWhileTheOthersConnectIsNamedOnAllAtOnce) {
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

TEST(ConnectRanks, ASecondRank0NamesTheOneWhoseWorldTheOthersJoined) {
  const std::string job = "two_zeros." + std::to_string(::getpid());
  std::thread first([&] { EXPECT_EQ(connect_ranks({0, 2, job, 20s}).size(), 2U); });
  while (!connect_to(socket_name(job, "0"))) std::this_thread::sleep_for(1ms);
  std::thread second([&] {
    testing::expect_error<Timeout>(
        [&] { static_cast<void>(connect_ranks({0, 2, job, 3s})); },
        {"rank 1 of 2 did not come", "process " + std::to_string(::getpid()), "only one process of a job is rank 0"});
  });
  std::this_thread::sleep_for(600ms);  // by now the second has found the first
  EXPECT_EQ(connect_ranks({1, 2, job, 20s}).size(), 2U);
  first.join();
  second.join();
}

TEST(ConnectRanks, WhoSaysWhatNoRankSaysIsLetGo) {
  run_ranks(3, [](World& world) {
    InitOptions options = another(world, ".strange");
    options.launch->world_size = options.launch->local_size = 2;
    options.env->timeout = 30s;
    const Team late = world.team({1, 2});
    if (world.rank() == 2) {
      const auto deadline = std::chrono::steady_clock::now() + 20s;
      const std::vector<std::vector<std::byte>> messages{
          std::vector<std::byte>(1), std::vector<std::byte>(3), note(Note::ready).take(),
          // These begin like a rank's first message.
          note(Note::hello).take(), note(Note::hello).number(protocol).number(1).take()};
      for (const auto& message : messages) {
        FileDescriptor rank_zero;
        while (!(rank_zero = connect_to(socket_name(options.launch->job, "0")))) std::this_thread::sleep_for(1ms);
        send_message(rank_zero, message);
        const std::array<int, 1> sockets{rank_zero.get()};
        ASSERT_TRUE(wait_readable(sockets, deadline));
        EXPECT_EQ(receive_message(rank_zero).state, Received::State::end) << message.size();
      }
    }
    if (late) late.barrier();
    if (world.rank() != 2) init(options).team().barrier();
    world.team().barrier();
  });
}

TEST(ConnectRanks, AllHearAtOnceThatRank0HasRunOutOfDescriptors) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ranks are threads here, and what one lowers all later tests would have";
#elif defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "UBSan opens a pipe to see whether an object can be read, and finds no descriptor left for that";
#endif
  run_ranks(4, [](World& world) {
    InitOptions options = another(world, ".full");
    options.env->timeout = 60s;
    const auto before = std::chrono::steady_clock::now();
    if (world.rank() == 0) {
      // Leaves two: for the socket that listens for the other ranks, and for the connection of one of them.
      const rlimit low{64, 64};
      ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
      std::vector<FileDescriptor> taken;
      for (int fd = 0; (fd = ::fcntl(0, F_DUPFD_CLOEXEC, 0)) >= 0;) {
        taken.push_back(FileDescriptor::from_native_handle(fd));
      }
      ASSERT_GE(taken.size(), 2U);
      taken.resize(taken.size() - 2);
      expect_says(refusal<OutOfMemory>(options), {"could not be accepted", "Too many open files"});
    } else {
      expect_says(refusal<Aborted>(options), {"rank 0 ", "could not be accepted", "Too many open files"});
    }
    EXPECT_LT(std::chrono::steady_clock::now() - before, 30s);
    world.team().barrier();
  });
}

TEST(ConnectRanks, ARankThatConnectsAndSaysNoMoreIsNamedWithWhatWasWaitedFor) {
  run_ranks(2, [](World& world) {
    InitOptions options = another(world, ".mute");
    options.env->timeout = 2s;
    world.team().barrier();  // so that the 2 s pass while waiting for the message, not for rank 1 to join
    if (world.rank() == 1) {
      const std::vector<PeerSocket> peers = connect_ranks({1, 2, options.launch->job, 20s});
      world.team().barrier();
    } else {
      expect_says(refusal<Timeout>(options), {"init of job", ".mute", "2000 ms", "rank 1 ", "says rank 0"});
      world.team().barrier();
    }
  });
}

}  // namespace
}  // namespace tandem
