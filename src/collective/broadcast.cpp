// SPDX-License-Identifier: Apache-2.0
#include "tandem/collective/broadcast.hpp"

#include <array>
#include <memory>

#include "collective/broadcast/state.hpp"
#include "collective/cached.hpp"

namespace tandem {

Broadcast::Broadcast(const Team& team, const BroadcastSpec& spec, const CollectiveOptions& options)
    : Collective(std::make_unique<State>(team, spec, options)) {}

std::span<const std::string_view> Broadcast::algorithms(Tensors tensors) noexcept {
  static constexpr std::array<std::string_view, 5> into_symmetric{"push", "pull", "mail", "one_kernel",
                                                                  "direct_kernel"};
  static constexpr std::array<std::string_view, 4> into_plain{"staged", "fetch", "mail", "one_kernel"};
  if (tensors == Tensors::symmetric_output) return into_symmetric;
  return into_plain;
}

std::string_view Broadcast::algorithm(std::int64_t count, Tensors tensors) const {
  return state<State>().algorithm(count, tensors);
}

void Broadcast::operator()(const SymmetricTensor& tensor, int root, StreamRef stream) {
  state<State>().run(tensor, root, stream);
}

void Broadcast::operator()(const TensorView& tensor, int root, StreamRef stream) {
  state<State>().run(tensor, root, stream);
}

void Broadcast::operator()(const TensorView& input, const SymmetricTensor& out, int root, StreamRef stream) {
  state<State>().run(input, out, root, stream);
}

void Broadcast::operator()(const TensorView& input, const TensorView& out, int root, StreamRef stream) {
  state<State>().run(input, out, root, stream);
}

void broadcast(const Team& team, const TensorView& tensor, int root, StreamRef stream) {
  broadcast(team, tensor, tensor, root, stream);
}

void broadcast(const Team& team, const TensorView& input, const TensorView& out, int root, StreamRef stream) {
  (*cached_plan<Broadcast, BroadcastSpec>(team, "broadcast", out.numel(), out.dtype(), stream))(input, out, root,
                                                                                                stream);
}

void broadcast(const Team& team, const SymmetricTensor& tensor, int root, StreamRef stream) {
  (*cached_plan<Broadcast, BroadcastSpec>(team, "broadcast", tensor.sizes().numel(), tensor.dtype(), stream))(
      tensor, root, stream);
}

void broadcast(const Team& team, const TensorView& input, const SymmetricTensor& out, int root, StreamRef stream) {
  (*cached_plan<Broadcast, BroadcastSpec>(team, "broadcast", out.sizes().numel(), out.dtype(), stream))(input, out,
                                                                                                        root, stream);
}

}  // namespace tandem
