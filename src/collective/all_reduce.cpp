// SPDX-License-Identifier: Apache-2.0
#include "tandem/collective/all_reduce.hpp"

#include <array>
#include <memory>

#include "collective/all_reduce/state.hpp"
#include "collective/cached.hpp"

namespace tandem {

AllReduce::AllReduce(const Team& team, const AllReduceSpec& spec, const CollectiveOptions& options)
    : Collective(std::make_unique<State>(team, spec, options)) {}

std::span<const std::string_view> AllReduce::algorithms(Tensors tensors) noexcept {
  static constexpr std::array<std::string_view, 6> between_plain{"one_shot", "two_shot",   "fetch",
                                                                 "mail",     "one_kernel", "one_kernel_two_shot"};
  static constexpr std::array<std::string_view, 5> out_of_symmetric{"one_shot", "two_shot", "mail", "one_kernel",
                                                                    "one_kernel_two_shot"};
  static constexpr std::array<std::string_view, 6> into_symmetric{
      "one_shot", "two_shot", "mail", "one_kernel", "one_kernel_two_shot", "direct_kernel"};
  switch (tensors) {
    case Tensors::plain: return between_plain;
    case Tensors::symmetric_input: return out_of_symmetric;
    case Tensors::symmetric_output: return into_symmetric;
  }
  return {};
}

std::string_view AllReduce::algorithm(std::int64_t count, Tensors tensors) const {
  return state<State>().algorithm(count, tensors);
}

void AllReduce::operator()(const SymmetricTensor& tensor, StreamRef stream) { state<State>().run(tensor, stream); }

void AllReduce::operator()(const SymmetricTensor& input, const SymmetricTensor& out, StreamRef stream) {
  state<State>().run(input, out, stream);
}

void AllReduce::operator()(const TensorView& input, const SymmetricTensor& out, StreamRef stream) {
  state<State>().run(input, out, stream);
}

void AllReduce::operator()(const SymmetricTensor& input, const TensorView& out, StreamRef stream) {
  state<State>().run(input, out, stream);
}

void AllReduce::operator()(const TensorView& input, const TensorView& out, StreamRef stream) {
  state<State>().run(input, out, stream);
}

namespace {

std::shared_ptr<AllReduce> kept_plan(const Team& team, std::int64_t count, DType dtype, StreamRef stream) {
  return cached_plan<AllReduce, AllReduceSpec>(team, "all_reduce", count, dtype, stream);
}

}  // namespace

void all_reduce(const Team& team, const TensorView& input, const TensorView& out, StreamRef stream) {
  (*kept_plan(team, input.numel(), input.dtype(), stream))(input, out, stream);
}

void all_reduce(const Team& team, const SymmetricTensor& tensor, StreamRef stream) {
  (*kept_plan(team, tensor.sizes().numel(), tensor.dtype(), stream))(tensor, stream);
}

void all_reduce(const Team& team, const SymmetricTensor& input, const SymmetricTensor& out, StreamRef stream) {
  (*kept_plan(team, input.sizes().numel(), input.dtype(), stream))(input, out, stream);
}

void all_reduce(const Team& team, const TensorView& input, const SymmetricTensor& out, StreamRef stream) {
  (*kept_plan(team, input.numel(), input.dtype(), stream))(input, out, stream);
}

void all_reduce(const Team& team, const SymmetricTensor& input, const TensorView& out, StreamRef stream) {
  (*kept_plan(team, out.numel(), out.dtype(), stream))(input, out, stream);
}

}  // namespace tandem
