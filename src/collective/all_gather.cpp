// SPDX-License-Identifier: Apache-2.0
#include "tandem/collective/all_gather.hpp"

#include <algorithm>
#include <array>
#include <memory>

#include "collective/all_gather/state.hpp"
#include "collective/cached.hpp"

namespace tandem {

AllGather::AllGather(const Team& team, const AllGatherSpec& spec, const CollectiveOptions& options)
    : Collective(std::make_unique<State>(team, spec, options)) {}

std::span<const std::string_view> AllGather::algorithms(Tensors tensors) noexcept {
  static constexpr std::array<std::string_view, 4> into_symmetric{"push", "mail", "one_kernel", "direct_kernel"};
  static constexpr std::array<std::string_view, 4> into_plain{"staged", "fetch", "mail", "one_kernel"};
  if (tensors == Tensors::symmetric_output) return into_symmetric;
  return into_plain;
}

std::string_view AllGather::algorithm(std::int64_t count, Tensors tensors) const {
  return state<State>().algorithm(count, tensors);
}

void AllGather::operator()(const SymmetricTensor& gathered, StreamRef stream) { state<State>().run(gathered, stream); }

void AllGather::operator()(const TensorView& shard, const SymmetricTensor& gathered, StreamRef stream) {
  state<State>().run(shard, gathered, stream);
}

void AllGather::operator()(const TensorView& shard, const TensorView& gathered, StreamRef stream) {
  state<State>().run(shard, gathered, stream);
}

void AllGather::start(const SymmetricTensor& gathered, StreamRef stream) { state<State>().start(gathered, stream); }

void AllGather::start(const TensorView& shard, const SymmetricTensor& gathered, StreamRef stream) {
  state<State>().start(shard, gathered, stream);
}

void AllGather::wait_shard(int rank, StreamRef stream) { state<State>().wait_shard(rank, stream); }
void AllGather::finish(StreamRef stream) { state<State>().finish(stream); }

namespace {

std::shared_ptr<AllGather> kept_plan(const Team& team, const Dims& gathered, DType dtype, StreamRef stream) {
  const std::int64_t shard = longest_shard(gathered, std::max(team.size(), 1));
  return cached_plan<AllGather, AllGatherSpec>(team, "all_gather", shard, dtype, stream);
}

}  // namespace

void all_gather(const Team& team, const TensorView& shard, const TensorView& gathered, StreamRef stream) {
  (*kept_plan(team, gathered.sizes(), gathered.dtype(), stream))(shard, gathered, stream);
}

void all_gather(const Team& team, const TensorView& shard, const SymmetricTensor& gathered, StreamRef stream) {
  (*kept_plan(team, gathered.sizes(), gathered.dtype(), stream))(shard, gathered, stream);
}

void all_gather(const Team& team, const SymmetricTensor& gathered, StreamRef stream) {
  (*kept_plan(team, gathered.sizes(), gathered.dtype(), stream))(gathered, stream);
}

}  // namespace tandem
