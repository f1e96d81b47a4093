// SPDX-License-Identifier: Apache-2.0
#include "long_sequence/collectives.hpp"

namespace tandem::long_sequence {
namespace {

/// Room for every rank's shard.
SymmetricTensor room_for_all(const Team& team, const TensorView& shard) {
  const Dims sizes{team.size() * shard.size(0), shard.size(1), shard.size(2), shard.size(3)};
  SymmetricTensor all = SymmetricTensor::empty(team, sizes, shard.dtype());
  all.rendezvous();
  return all;
}

}  // namespace

Collectives::Collectives(const Sequence& mine)
    : most_(mine.k().padded.size(0)),
      keys_(room_for_all(mine.team(), mine.k().padded)),
      values_(room_for_all(mine.team(), mine.v().padded)),
      dk_(mine.team().shared_device(), mine.k().padded.bytes()),
      dv_(mine.team().shared_device(), mine.v().padded.bytes()),
      dk_sums_(dk_.view(mine.k().padded.sizes(), mine.spec().dtype)),
      dv_sums_(dv_.view(mine.v().padded.sizes(), mine.spec().dtype)),
      gather_keys_(mine.team(), {.count = mine.k().padded.numel(), .dtype = mine.spec().dtype}),
      gather_values_(mine.team(), {.count = mine.v().padded.numel(), .dtype = mine.spec().dtype}),
      sum_dk_(mine.team(), {.count = mine.k().padded.numel(), .dtype = mine.spec().dtype}),
      sum_dv_(mine.team(), {.count = mine.v().padded.numel(), .dtype = mine.spec().dtype}) {}

void Collectives::gather(const Sequence& mine, StreamRef stream) {
  gather_keys_(mine.k().padded, keys_, stream);
  gather_values_(mine.v().padded, values_, stream);
}

void Collectives::sum_gradients(StreamRef stream) {
  sum_dk_(keys_, dk_sums_, stream);
  sum_dv_(values_, dv_sums_, stream);
}

}  // namespace tandem::long_sequence
