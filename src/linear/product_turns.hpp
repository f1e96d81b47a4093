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

/// The products of a run, of which none needs what another makes, in turns on the caller's stream and, on a GPU, on one
/// beside it: where the last wave of a product's tiles leaves multiprocessors idle, the next product begins.
class ProductTurns {
 public:
  struct Turn {
    StreamRef stream;
    Gemm& gemm;
  };

  /// Collective. For runs of so many products.
  ProductTurns(const Team& team, const GemmSpec& product, std::size_t products);

  [[nodiscard]] const Gemm& gemm() const { return *gemm_; }
  /// What its runs use.
  [[nodiscard]] std::vector<std::shared_ptr<void>> parts() const;
  [[nodiscard]] bool take_turns() const noexcept { return beside_.has_value(); }

  /// A product that follows all that `stream` has.
  [[nodiscard]] Turn on(StreamRef stream) const { return {stream, *gemm_}; }

  // A run in turns; `stream` is the caller's.

  /// Its products start when what `stream` has by now has ended.
  void fork(StreamRef stream);
  /// Where the next product goes, and what it waits for.
  [[nodiscard]] Turn next(StreamRef stream);
  /// What this turn waits for is queued, and its product is not: the next turn's waits come behind that. Waits for the
  /// same writer count its signals, each from where the one before has come to.
  void waited(StreamRef stream);
  /// What is queued on `stream` from now on starts after all products.
  void rejoin(StreamRef stream);

 private:
  /// The stream beside the caller's, where a turn there has a workspace of its own.
  struct Beside {
    explicit Beside(Device& device) : stream(device, StreamPriority::normal), waited(device) {}

    SideStream stream;
    Event waited;
  };

  Reclaimed<Gemm> gemm_;
  Reclaimed<Gemm> gemm_beside_;
  std::optional<Beside> beside_;
  bool is_beside_ = false;  ///< this turn
};

}  // namespace tandem
