// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>
#include <string_view>

#include "tandem/base/dtype.hpp"
#include "tandem/base/error.hpp"
#include "tandem/device/device.hpp"
#include "tandem/team/team.hpp"

#include "base/format.hpp"
#include "base/most_elements.hpp"
#include "team/names.hpp"
#include "team/or_abort.hpp"

namespace tandem {

/// The plan that a convenience function uses: one for each operation, dtype and power of two. Creating one takes a
/// rendezvous, so small counts share one. Throws InvalidArgument if it does not exist and `stream` is being captured.
template <typename P, typename Spec>
[[nodiscard]] std::shared_ptr<P> cached_plan(const Team& team, std::string_view operation, std::int64_t count,
                                             DType dtype, StreamRef stream) {
  constexpr std::int64_t smallest = std::int64_t{1} << 16;
  const auto power = [](std::int64_t least) {
    return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(least)));
  };
  // A count that no plan takes is refused by its own number.
  const std::int64_t bucket = count > most_elements ? count : power(std::max(count, smallest));
  return team.cached<P>(format("{} {} {}", operation, name(dtype), bucket), [&](const Team& handle) {
    if (ask_device(team, operation, [&] { return team.device().stream_capture(stream); }) != 0) {
      throw InvalidArgument(
          format("{} of {} {} on {}: the stream is being captured into a graph, where the plan behind this "
                 "function cannot be made; call it once before, or make a plan of your own",
                 operation, count, name(dtype), name_own_rank(team)));
    }
    return std::make_shared<P>(handle, Spec{.count = bucket, .dtype = dtype});
  });
}

}  // namespace tandem
