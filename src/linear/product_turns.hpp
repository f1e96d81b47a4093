// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "tandem/device/event.hpp"
#include "tandem/device/gemm.hpp"
#include "tandem/device/stream.hpp"
#include "tandem/team/reclaimed.hpp"
#include "tandem/team/team.hpp"

#include "collective/side_stream.hpp"

namespace tandem {

/// The products of a run, of which none needs what another makes, in turns on the caller's stream and on one beside it:
/// where the last wave of a product's tiles leaves a GPU's multiprocessors idle, the next product begins. Not where
/// products are to leave some to others, nor on a host: there all follow one another.
class ProductTurns {
 public:
  struct Turn {
    StreamRef stream;
    Gemm& gemm;
    Weights& weights;  ///< what this product says of them
  };

  /// Collective. For runs of so many products.
  ProductTurns(const Team& team, const GemmSpec& product, std::size_t products);

  [[nodiscard]] const Gemm& gemm() const { return *ways_.front().gemm; }
  /// What its runs use.
  [[nodiscard]] std::vector<std::shared_ptr<void>> parts() const;
  [[nodiscard]] bool take_turns() const noexcept { return beside_.has_value(); }

  // A run's; `stream` is the caller's.

  /// The products start when what `stream` has by now has ended. `weights`: what the first says of them.
  void begin(StreamRef stream, Weights weights);
  /// Where the next product goes, and what it waits for. That comes behind what the turn before waited for: waits for
  /// the same writer count its signals, each from where the one before has come to.
  [[nodiscard]] Turn next(StreamRef stream);
  /// What this turn waits for is queued, and its product is not.
  void waited(const Turn& turn);
  /// What is queued on `stream` from now on starts after all products.
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
    bool has_waited = false;  ///< in this run
  };

  std::vector<Way> ways_;         ///< each with a workspace of its own
  std::optional<Beside> beside_;  ///< the second's
  std::size_t way_ = 0;           ///< this turn's
};

}  // namespace tandem
