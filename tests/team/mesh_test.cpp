// SPDX-License-Identifier: Apache-2.0
#include "team/mesh.hpp"

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <gtest/gtest.h>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "tandem/base/error.hpp"

#include "team/connections.hpp"
#include "team/socket.hpp"

namespace tandem {
namespace {

using namespace std::chrono_literals;
using testing::connection;
using testing::peers_at;

constexpr std::uint64_t team_key = 7;
constexpr std::uint64_t parcels = 8;  // more than a socket's buffer holds

std::vector<PeerSocket> peers_at(FileDescriptor first, FileDescriptor second) {
  std::vector<FileDescriptor> sockets;
  sockets.push_back(std::move(first));
  sockets.push_back(std::move(second));
  return peers_at(std::move(sockets));
}

void fill(Mesh& mesh, int rank) {
  for (std::uint64_t sequence = 0; sequence < parcels; ++sequence) {
    mesh.send(rank, team_key, sequence, {std::vector<std::byte>(60'000), {}});
  }
}

TEST(Mesh, WhoReadsLateHearsTheGoodbyeAfterAllElse) {
  auto [early_end, late_end] = connection();
  std::optional<Mesh> early(std::in_place, 0, peers_at({}, std::move(early_end)), 20s);
  fill(*early, 1);
  std::jthread leaving([&early] { early.reset(); });
  std::this_thread::sleep_for(50ms);  // enough for one that does not wait to end
  Mesh late(1, peers_at(std::move(late_end), {}), 0ms);
  std::promise<bool> clean;
  late.listen({[&clean](int, bool well) { clean.set_value(well); }, [](int, const Abort&) {}});
  std::future<bool> heard = clean.get_future();
  ASSERT_EQ(heard.wait_for(20s), std::future_status::ready);
  EXPECT_TRUE(heard.get());
  for (std::uint64_t sequence = 0; sequence < parcels; ++sequence) {
    EXPECT_TRUE(late.try_receive(0, team_key, sequence)) << sequence;
  }
  leaving.join();
}

TEST(Mesh, WhoReadsNothingHoldsUpAnEndForItsPatienceAtMost) {
  const auto [end, other_end] = connection();
  std::optional<Mesh> mesh(std::in_place, 0, peers_at({}, duplicate(end)), 50ms);
  fill(*mesh, 1);
  const auto before = std::chrono::steady_clock::now();
  mesh.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - before, 10s);
}

TEST(Mesh, FlushWaitsForTheRanksThatItIsGivenAndAsksWhetherToStop) {
  auto [first_end, reads_nothing] = connection();
  auto [second_end, gets_nothing] = connection();
  std::vector<FileDescriptor> sockets(1);
  sockets.push_back(std::move(first_end));
  sockets.push_back(std::move(second_end));
  Mesh mesh(0, peers_at(std::move(sockets)), 0ms);
  fill(mesh, 1);
  const auto before = Bootstrap::Clock::now();
  mesh.flush(std::array{2}, before + 60s, nullptr);
  const auto stop = [] { throw Aborted("enough"); };
  EXPECT_THROW(mesh.flush(std::array{1, 2}, before + 60s, stop), Aborted);
  mesh.flush(std::array{1, 2}, Bootstrap::Clock::now() + 50ms, nullptr);
  EXPECT_LT(Bootstrap::Clock::now() - before, 30s);
}

}  // namespace
}  // namespace tandem
