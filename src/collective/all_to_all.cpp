// SPDX-License-Identifier: Apache-2.0
#include "tandem/collective/all_to_all.hpp"

#include <algorithm>
#include <array>
#include <memory>

#include "collective/all_to_all/state.hpp"
#include "collective/cached.hpp"

namespace tandem {

AllToAll::AllToAll(const Team& team, const AllToAllSpec& spec, const CollectiveOptions& options)
    : Collective(std::make_unique<State>(team, spec, options)) {}

std::span<const std::string_view> AllToAll::algorithms(Tensors tensors) noexcept {
  static constexpr std::array<std::string_view, 4> between_plain{"staged", "fetch", "mail", "one_kernel"};
  static constexpr std::array<std::string_view, 4> out_of_symmetric{"pull", "mail", "one_kernel", "direct_kernel"};
  static constexpr std::array<std::string_view, 4> into_symmetric{"push", "mail", "one_kernel", "direct_kernel"};
  switch (tensors) {
    case Tensors::plain: return between_plain;
    case Tensors::symmetric_input: return out_of_symmetric;
    case Tensors::symmetric_output: return into_symmetric;
  }
  return {};
}

std::string_view AllToAll::algorithm(std::int64_t count, Tensors tensors) const {
  return state<State>().algorithm(count, tensors);
}

void AllToAll::operator()(const TensorView& input, const SymmetricTensor& out, StreamRef stream) {
  state<State>().run(input, out, stream);
}

void AllToAll::operator()(const SymmetricTensor& input, const TensorView& out, StreamRef stream) {
  state<State>().run(input, out, stream);
}

void AllToAll::operator()(const TensorView& input, const TensorView& out, StreamRef stream) {
  state<State>().run(input, out, stream);
}

void AllToAll::operator()(const TensorView& input, const SymmetricTensor& out, std::span<const std::int64_t> counts,
                          StreamRef stream) {
  state<State>().run(input, out, counts, stream);
}

void AllToAll::operator()(const SymmetricTensor& input, const TensorView& out, std::span<const std::int64_t> counts,
                          StreamRef stream) {
  state<State>().run(input, out, counts, stream);
}

void AllToAll::operator()(const TensorView& input, const TensorView& out, std::span<const std::int64_t> counts,
                          StreamRef stream) {
  state<State>().run(input, out, counts, stream);
}

namespace {

std::shared_ptr<AllToAll> kept_plan(const Team& team, std::int64_t count, DType dtype, StreamRef stream) {
  return cached_plan<AllToAll, AllToAllSpec>(team, "all_to_all", count, dtype, stream);
}

/// Elements from one rank to another if all parts are equal, rounded up.
std::int64_t part_of(const Team& team, std::int64_t elements) {
  const std::int64_t ranks = std::max(team.size(), 1);
  return elements / ranks + (elements % ranks != 0 ? 1 : 0);
}

// Over the whole matrix, since all ranks must request the same plan; what each rank sends may differ.
std::int64_t most(std::span<const std::int64_t> counts) {
  return counts.empty() ? 0 : *std::ranges::max_element(counts);
}

}  // namespace

void all_to_all(const Team& team, const TensorView& input, const TensorView& out, StreamRef stream) {
  (*kept_plan(team, part_of(team, input.numel()), input.dtype(), stream))(input, out, stream);
}

void all_to_all(const Team& team, const TensorView& input, const TensorView& out, std::span<const std::int64_t> counts,
                StreamRef stream) {
  (*kept_plan(team, most(counts), input.dtype(), stream))(input, out, counts, stream);
}

void all_to_all(const Team& team, const TensorView& input, const SymmetricTensor& out, StreamRef stream) {
  (*kept_plan(team, part_of(team, input.numel()), input.dtype(), stream))(input, out, stream);
}

void all_to_all(const Team& team, const TensorView& input, const SymmetricTensor& out,
                std::span<const std::int64_t> counts, StreamRef stream) {
  (*kept_plan(team, most(counts), input.dtype(), stream))(input, out, counts, stream);
}

void all_to_all(const Team& team, const SymmetricTensor& input, const TensorView& out, StreamRef stream) {
  (*kept_plan(team, part_of(team, out.numel()), out.dtype(), stream))(input, out, stream);
}

void all_to_all(const Team& team, const SymmetricTensor& input, const TensorView& out,
                std::span<const std::int64_t> counts, StreamRef stream) {
  (*kept_plan(team, most(counts), out.dtype(), stream))(input, out, counts, stream);
}

}  // namespace tandem
