// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tandem/device/event.hpp"
#include "tandem/device/stream.hpp"
#include "tandem/linear/cost_model.hpp"
#include "tandem/linear/linear_spec.hpp"
#include "tandem/team/team.hpp"

#include "collective/side_stream.hpp"
#include "linear/shard_gather.hpp"
#include "memory/owners.hpp"

namespace tandem {

/// The all-gather of the scales of x's rows. If GEMMs overlap with communication, it is on a stream of its own: the
/// GEMM of the own shard does not wait for the peers' scales. With any other scaling, and in a team of one, it does
/// nothing.
class ScaleGather {
 public:
  /// Collective.
  ScaleGather(const Team& team, const LinearSpec& spec, const LinearChoice& choice, std::uint32_t operation);

  /// What communicates, for a plan's `describe`; empty if nothing does.
  [[nodiscard]] std::string communication() const;
  /// Owners of what its runs use.
  [[nodiscard]] Owners owners() const;

  /// Starts a run of `m` rows after what is queued on `stream`, which is being captured or not. `own`: this rank's
  /// scales.
  void start(StreamRef stream, const float* own, std::int64_t m, bool captured);
  /// Work queued on `stream` from now on may read all scales.
  void wait(StreamRef stream) const;
  /// The scale of row `row` of this run and those of the rows behind it; `own` if none are gathered.
  [[nodiscard]] const float* of(std::int64_t row, const float* own) const;
  /// Orders `stream` after what `start` queued.
  void rejoin(StreamRef stream);
  /// Ends the run. Call after the last reader of the scales, in stream order.
  void finish(StreamRef stream);

 private:
  /// Where scales are gathered while GEMMs run.
  struct Beside {
    explicit Beside(const Team& team);

    SideStream stream;
    Event gathered;
  };
  struct Parts {
    Parts(const Team& team, std::int64_t max_m, const LinearChoice& choice, std::uint32_t operation);

    ShardGather gather;
    std::optional<Beside> beside;  ///< none in a sequence
  };

  bool keeps_own_;  ///< all of x is multiplied at once, by all scales
  std::optional<Parts> parts_;
};

}  // namespace tandem
