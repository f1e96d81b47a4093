// SPDX-License-Identifier: Apache-2.0
// A rank that a launcher starts. `launched VICTIM MICROSECONDS COUNT`: all ranks repeat an all-reduce of COUNT numbers
// until rank VICTIM kills itself after MICROSECONDS; the others must be told, and then do the same without it.

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include "tandem/base/error.hpp"
#include "tandem/collective/all_reduce.hpp"
#include "tandem/device/buffer.hpp"
#include "tandem/team/world.hpp"

#include "fault/leftovers.hpp"
#include "support/socket_names.hpp"

namespace {

using namespace tandem;

/// All-reduces over a team whose result every rank can compute.
class Sums {
 public:
  Sums(const Team& team, std::int64_t count)
      : team_(team),
        stream_(team.device()),
        plan_(team, {.count = count, .dtype = f32}),
        buffer_(team.shared_device(), static_cast<std::size_t>(count) * sizeof(float)),
        values_(static_cast<std::size_t>(count)) {}

  /// Returns false for a wrong sum; throws if the team fails.
  bool add_up() {
    for (std::size_t i = 0; i < values_.size(); ++i) values_[i] = value(team_.world_rank(team_.rank()), i);
    Device& device = team_.device();
    device.upload(buffer_.data(), values_.data(), buffer_.bytes());
    const TensorView view = buffer_.view({static_cast<std::int64_t>(values_.size())}, f32);
    plan_(view, view, stream_);
    team_.synchronize(stream_);
    device.download(values_.data(), buffer_.data(), buffer_.bytes());
    for (std::size_t i = 0; i < values_.size(); ++i) {
      float sum = 0;
      for (const int member : team_.members()) sum += value(member, i);
      if (values_[i] != sum) return false;
    }
    return true;
  }

 private:
  static float value(int rank, std::size_t i) { return static_cast<float>(static_cast<std::size_t>(rank) + i % 100); }

  Team team_;
  Stream stream_;
  AllReduce plan_;
  Buffer buffer_;
  std::vector<float> values_;
};

int run(int victim, std::chrono::microseconds delay, std::int64_t count) {
  const World world = init();
  const std::string prefix = testing::socket_prefix(testing::hash_of_job(world.launch().job));
  std::printf("rank %d is process %d of job %s with %zu sockets\n", world.rank(), static_cast<int>(::getpid()),
              world.launch().job.c_str(), fault::sockets_named(prefix).size());
  std::fflush(stdout);
  Sums sums(world.team(), count);
  try {
    world.team().barrier();  // inside `try`: the victim may leave it and die while others are in it
    if (world.rank() == victim) {
      std::thread([delay] {
        std::this_thread::sleep_for(delay);
        ::kill(::getpid(), SIGKILL);
      }).detach();
    }
    while (sums.add_up()) continue;
    std::printf("rank %d has a wrong sum\n", world.rank());
    return 1;
  } catch (const PeerLost& error) {
    std::printf("rank %d has lost rank %d, process %lld\n", world.rank(), error.rank(),
                static_cast<long long>(error.pid()));
  }
  std::vector<int> others;
  for (int rank = 0; rank < world.size(); ++rank) {
    if (rank != victim) others.push_back(rank);
  }
  Sums rest(world.team(others), count);
  for (int call = 0; call < 3; ++call) {
    if (!rest.add_up()) return 1;
  }
  std::printf("rank %d goes on without it\n", world.rank());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  try {
    return run(std::atoi(argv[1]), std::chrono::microseconds(std::atoi(argv[2])), std::atoi(argv[3]));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
