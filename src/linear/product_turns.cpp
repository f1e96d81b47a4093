// SPDX-License-Identifier: Apache-2.0
#include "linear/product_turns.hpp"

#include <utility>

#include "tandem/linear/tuned_product.hpp"

#include "team/or_abort.hpp"

namespace tandem {
namespace {

bool leaves_idle(const Team& team, const GemmSpec& product) {
  return team.device().hardware().blocks_at_once > 0 && product.leave_sms == 0;
}

/// None unless the world's GPUs are alike and no ranks share one: there copies may be kernels, and those must not be
/// queued behind a wait.
int multiprocessors_for_waits(const Team& team) {
  const int all = team.device().hardware().blocks_at_once;
  return team.resident_blocks() == all ? all : 0;
}

}  // namespace

ProductTurns::ProductTurns(const Team& team, const GemmSpec& product, std::size_t products)
    : columns_(product.n), multiprocessors_(multiprocessors_for_waits(team)) {
  const bool turns = products > 1 && leaves_idle(team, product);
  for (std::unique_ptr<Gemm>& gemm : tuned_gemms(team, product, turns ? 2 : 1)) {
    ways_.push_back({.gemm = Reclaimed<Gemm>(team, std::move(gemm))});
  }
  if (turns) beside_ = or_abort(team, "a stream", [&] { return Beside(team.device()); });
}

Owners ProductTurns::owners() const {
  Owners owners;
  for (const Way& way : ways_) owners.push_back(way.gemm.shared());
  return owners;
}

bool ProductTurns::leaves_an_sm(std::int64_t rows) const noexcept {
  const auto over = [](std::int64_t count, std::int64_t size) { return (count + size - 1) / size; };
  return over(rows, 128) * over(columns_, 112) < multiprocessors_;  // the smallest tiles that GEMMs this large take
}

void ProductTurns::begin(StreamRef stream, Weights weights, std::int64_t rows, bool capturing) {
  for (Way& way : ways_) way.weights = weights;
  in_turn_ = capturing ? 1 : ways_.size();
  way_ = in_turn_ - 1;  // so that the first turn is on the caller's stream
  waits_beside_ = capturing && beside_ && leaves_an_sm(rows);
  if (in_turn_ == 1 && !waits_beside_) return;
  beside_->stream.follow(stream);
  beside_->has_waited = false;
}

ProductTurns::Turn ProductTurns::next(StreamRef stream) {
  way_ = (way_ + 1) % in_turn_;
  Way& way = ways_[way_];
  const StreamRef own = way_ == 0 ? stream : beside_->stream.ref();
  const Turn turn{own, waits_beside_ ? beside_->stream.ref() : own, *way.gemm, way.weights};
  if (in_turn_ > 1 && beside_->has_waited) beside_->waited.wait(turn.stream);
  return turn;
}

void ProductTurns::waited(const Turn& turn) {
  if (in_turn_ == 1 && !waits_beside_) return;
  beside_->waited.record(turn.waits);
  beside_->has_waited = true;
  if (waits_beside_) beside_->waited.wait(turn.stream);
}

void ProductTurns::rejoin(StreamRef stream) {
  if (beside_) beside_->stream.rejoin(stream);
}

}  // namespace tandem
