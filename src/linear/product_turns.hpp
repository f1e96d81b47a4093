// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "tandem/base/export.hpp"
#include "tandem/device/event.hpp"
#include "tandem/device/gemm.hpp"
#include "tandem/device/stream.hpp"
#include "tandem/team/team.hpp"

#include "collective/side_stream.hpp"
#include "memory/owners.hpp"
#include "team/reclaimed.hpp"

namespace tandem {

/// Runs the independent GEMMs of a run alternately on the caller's stream and on a second one: where the last wave of a
/// GEMM's tiles leaves SMs idle, the next GEMM begins. All of them run on the caller's stream on the host, where GEMMs
/// are to leave SMs to other kernels, and in a captured run, whose waits are on the second stream if the first GEMM
/// leaves them an SM (see docs/linear_schedules.md).
class TANDEM_API ProductTurns {
 public:
  struct Turn {
    StreamRef stream;
    StreamRef waits;  ///< where to queue what the GEMM waits for
    Gemm& gemm;
    Weights& weights;  ///< this Gemm's: what its next run is given
  };

  /// Collective. For runs of `products` turns.
  ProductTurns(const Team& team, const GemmSpec& product, std::size_t products);

  [[nodiscard]] const Gemm& gemm() const { return *ways_.front().gemm; }
  /// Owners of what its runs use.
  [[nodiscard]] Owners owners() const;
  /// In runs that are not captured.
  [[nodiscard]] bool take_turns() const noexcept { return beside_.has_value(); }

  // The steps of a run; `stream` is the caller's.

  /// GEMMs start after what is already queued on `stream`. `weights` is for the first run of each Gemm, `rows` are
  /// those of the first GEMM, and `capturing` says whether the run is captured.
  void begin(StreamRef stream, Weights weights, std::int64_t rows, bool capturing);
  /// The stream and Gemm of the next turn. What the turn waits for is ordered after the previous turn's waits: waits
  /// for the same writer count its signals, each from where the previous one stopped.
  [[nodiscard]] Turn next(StreamRef stream);
  /// Call when this turn's waits are queued, before its GEMM is.
  void waited(const Turn& turn);
  /// Work queued on `stream` from now on starts after all GEMMs.
  void rejoin(StreamRef stream);

 private:
  struct Way {
    Reclaimed<Gemm> gemm;
    Weights weights = Weights::once;
  };
  struct Beside {
    explicit Beside(Device& device) : stream(device, StreamPriority::normal), waited(device) {}

    SideStream stream;
    Event waited;
    bool has_waited = false;  ///< `waited` was recorded in this run
  };

  /// Whether the first product leaves SMs idle from its beginning.
  [[nodiscard]] bool leaves_an_sm(std::int64_t rows) const noexcept;

  std::vector<Way> ways_;         ///< each with a workspace of its own
  std::optional<Beside> beside_;  ///< for the second one
  std::int64_t columns_;          ///< of the products
  int multiprocessors_;           ///< if waits may be beside GEMMs, else 0
  // This run's:
  std::size_t in_turn_ = 1;  ///< how many ways take turns
  std::size_t way_ = 0;      ///< the current turn's
  bool waits_beside_ = false;
};

}  // namespace tandem
