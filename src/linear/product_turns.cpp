// SPDX-License-Identifier: Apache-2.0
#include "linear/product_turns.hpp"

#include <utility>

#include "tandem/linear/tuned_product.hpp"

#include "collective/engines.hpp"
#include "team/or_abort.hpp"

namespace tandem {

ProductTurns::ProductTurns(const Team& team, const GemmSpec& product, std::size_t products)
    : gemm_(team, tuned_gemm(team, product)) {
  if (products < 2 || !engines_copy(team.device())) return;
  gemm_beside_ = Reclaimed<Gemm>(team, tuned_gemm(team, product));
  beside_ = or_abort(team, "a stream", [&] { return Beside(team.device()); });
}

std::vector<std::shared_ptr<void>> ProductTurns::parts() const {
  std::vector<std::shared_ptr<void>> parts{gemm_.shared()};
  if (gemm_beside_) parts.push_back(gemm_beside_.shared());
  return parts;
}

void ProductTurns::fork(StreamRef stream) {
  is_beside_ = take_turns();  // so the first is the caller's stream's
  if (beside_) beside_->stream.follow(stream);
}

ProductTurns::Turn ProductTurns::next(StreamRef stream) {
  is_beside_ = take_turns() && !is_beside_;
  return is_beside_ ? Turn{beside_->stream.ref(), *gemm_beside_} : on(stream);
}

void ProductTurns::waited(StreamRef stream) {
  if (!beside_) return;
  StreamRef here = beside_->stream.ref();
  StreamRef there = stream;
  if (!is_beside_) std::swap(here, there);
  order_after(there, here, beside_->waited);
}

void ProductTurns::rejoin(StreamRef stream) {
  if (beside_) beside_->stream.rejoin(stream);
}

}  // namespace tandem
