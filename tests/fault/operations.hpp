// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <numeric>
#include <span>
#include <string_view>
#include <vector>

#include "tandem/device/buffer.hpp"
#include "tandem/device/stream.hpp"
#include "tandem/linear/linear_spec.hpp"
#include "tandem/memory/symmetric_tensor.hpp"
#include "tandem/team/world.hpp"

namespace tandem::fault {

using Work = std::function<void()>;
class Stage;
/// Makes Work that queues one run per call, from `queue`, which queues a run once.
using Repeat = Work (*)(Stage& stage, const Work& queue);

/// How much one rank sends to one other: a few KB; enough to be split into pieces or groups; enough that copies take a
/// while, and that copies distribute the results of reductions.
enum class Messages : std::uint8_t { small, large, bulk };

/// What a rank needs for the operation during which a rank is killed.
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
  /// How much each rank sends to each other one in an all-to-all with counts: not all equal, and at most count().
  [[nodiscard]] std::vector<std::int64_t> counts() const {
    std::vector<std::int64_t> counts;
    for (int from = 0; from < team.size(); ++from) {
      for (int to = 0; to < team.size(); ++to) counts.push_back(count() / (1 + (from + 2 * to) % 3));
    }
    return counts;
  }
  /// A plain tensor; those with different `place`s do not overlap.
  [[nodiscard]] TensorView plain(int place, const Dims& sizes) const {
    return plain_.view(sizes, f32, static_cast<std::size_t>(place * all()) * sizeof(float));
  }
  [[nodiscard]] std::vector<int> everyone_reversed() const {
    std::vector<int> everyone(static_cast<std::size_t>(team.size()));
    std::iota(everyone.rbegin(), everyone.rend(), 0);
    return everyone;
  }
  /// For linear layers: a large one runs the pipeline, a small one the sequence.
  [[nodiscard]] LinearSpec spec() const {
    return {.m = messages == Messages::small ? 50 : 2500, .n = 40, .k = 30, .dtype = f32};
  }
  [[nodiscard]] LinearOptions options() const {
    return {.algorithm = messages == Messages::small ? "sequence" : "pipeline"};
  }
  [[nodiscard]] std::int64_t own_rows() const { return shard_of(spec().m, team.size(), team.rank()).count; }

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
  const char* name;                                             ///< the kind of operation and, after a comma, its form
  Work (*prepare)(Stage& stage);                                ///< collective
  enum Of : std::uint8_t { calls, runs } of = runs;             ///< runs of a plan can be captured
  enum On : std::uint8_t { any_device, cuda } on = any_device;  ///< which devices have it
  Messages most = Messages::large;                              ///< on CUDA; at most large on the host

  [[nodiscard]] std::string_view kind() const {
    const std::string_view whole(name);
    return whole.substr(0, whole.find(','));
  }
};

/// What ranks do together: barriers; constructing teams, tensors and plans; each collective on symmetric and on plain
/// tensors, by mail or in one kernel, and with every algorithm that "auto" uses for larger messages; each linear layer.
[[nodiscard]] std::span<const Operation> all_operations();

/// Queues each run anew.
[[nodiscard]] Work queued(Stage& stage, const Work& queue);
/// The first call captures a run in a CUDA graph, which every call launches. Defined in builds with CUDA only.
[[nodiscard]] Work replayed(Stage& stage, const Work& queue);

}  // namespace tandem::fault
