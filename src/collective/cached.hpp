// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>
#include <string_view>

#include "tandem/base/dtype.hpp"
#include "tandem/team/team.hpp"

#include "base/format.hpp"

namespace tandem {

/// The plan behind a convenience function: one for each dtype and power of two. A plan costs a rendezvous, so that
/// small counts share one.
template <typename P, typename Spec>
[[nodiscard]] std::shared_ptr<P> cached_plan(const Team& team, std::string_view operation, std::int64_t count,
                                             DType dtype) {
  constexpr std::int64_t smallest = std::int64_t{1} << 16;
  const auto bucket = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::max(count, smallest))));
  return team.cached<P>(format("{} {} {}", operation, name(dtype), bucket), [&](const Team& handle) {
    return std::make_shared<P>(handle, Spec{.count = bucket, .dtype = dtype});
  });
}

}  // namespace tandem
