// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <numeric>
#include <span>
#include <vector>

#include "tandem/device/buffer.hpp"
#include "tandem/device/stream.hpp"
#include "tandem/linear/linear_spec.hpp"
#include "tandem/memory/symmetric_tensor.hpp"
#include "tandem/team/world.hpp"

namespace tandem::fault {

using Work = std::function<void()>;
class Stage;
/// What queues a run again and again, made of what queues it once.
using Repeat = Work (*)(Stage& stage, const Work& queue);

/// Of what one rank sends to one other: a few KB; so much that it goes in pieces or groups; so much that copies take
/// their time, and sums are spread by copies.
enum class Messages : std::uint8_t { small, large, bulk };

/// What a rank has at hand for the operation that it is in when somebody is killed.
class Stage {
 public:
  Stage(const World& world, const Team& its_team, Messages its_messages, Repeat its_repeat)
      : team(its_team),
        stream(world.device()),
        messages(its_messages),
        repeat(its_repeat),
        symmetric(SymmetricTensor::empty(team, {team.size() * count()}, f32)),
        plain_(world.shared_device(), static_cast<std::size_t>(places * team.size() * count()) * sizeof(float)) {
    symmetric.rendezvous();
  }

  /// Elements that one rank sends to one other.
  [[nodiscard]] std::int64_t count() const {
    return messages == Messages::small ? 1000 : messages == Messages::large ? 50'000 : 4 << 20;
  }
  [[nodiscard]] std::int64_t all() const { return team.size() * count(); }
  /// What each rank sends to each other, for an all_to_all by counts: not all alike, and at most count().
  [[nodiscard]] std::vector<std::int64_t> counts() const {
    std::vector<std::int64_t> counts;
    for (int from = 0; from < team.size(); ++from) {
      for (int to = 0; to < team.size(); ++to) counts.push_back(count() / (1 + (from + 2 * to) % 3));
    }
    return counts;
  }
  /// Plain tensors, each in a place of its own.
  [[nodiscard]] TensorView plain(int place, const Dims& sizes) const {
    return {plain_.data_as<float>() + place * all(), sizes, f32, team.device().id()};
  }
  [[nodiscard]] std::vector<int> everyone_reversed() const {
    std::vector<int> everyone(static_cast<std::size_t>(team.size()));
    std::iota(everyone.rbegin(), everyone.rend(), 0);
    return everyone;
  }
  /// Of linear layers: a large one takes the pipeline, a small one the sequence.
  [[nodiscard]] LinearSpec spec() const {
    return {.m = messages == Messages::small ? 50 : 2500, .n = 40, .k = 30, .dtype = f32};
  }
  [[nodiscard]] LinearOptions options() const {
    return {.algorithm = messages == Messages::small ? "sequence" : "pipeline"};
  }
  [[nodiscard]] std::int64_t own_rows() const { return shard_rows(spec().m, team.size(), team.rank()).count; }

  Team team;
  Stream stream;
  Messages messages;
  Repeat repeat;
  SymmetricTensor symmetric;
  int turn = 0;

 private:
  static constexpr int places = 3;
  Buffer plain_;
};

struct Operation {
  const char* name;
  Work (*prepare)(Stage& stage);                                ///< collective
  enum Of : std::uint8_t { calls, runs } of = runs;             ///< runs of a plan can be captured
  enum On : std::uint8_t { any_device, cuda } on = any_device;  ///< where it is
  Messages most = Messages::large;                              ///< on CUDA; the host takes no more than large ones
};

/// What ranks do together: barriers, making teams, tensors and plans, each collective on symmetric and on plain
/// tensors, what goes by mail or in one kernel, all that "auto" takes for larger messages, and each linear layer.
[[nodiscard]] std::span<const Operation> all_operations();

/// Each run is queued anew.
[[nodiscard]] Work queued(Stage& stage, const Work& queue);
/// The first call captures a run into a CUDA graph, and each call launches that. In builds with CUDA.
[[nodiscard]] Work replayed(Stage& stage, const Work& queue);

}  // namespace tandem::fault
