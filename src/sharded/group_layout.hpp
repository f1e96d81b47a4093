// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tandem/base/dims.hpp"
#include "tandem/base/export.hpp"
#include "tandem/collective/shard.hpp"
#include "tandem/sharded/sharded_spec.hpp"

namespace tandem {

/// Where the parameters of a group lie in its range of elements, and what each rank's shard of it has.
class TANDEM_API GroupLayout {
 public:
  /// Parameters and shards begin at multiples of it: 128 bytes of 16-bit elements, as GEMMs and wide accesses like it.
  static constexpr std::int64_t alignment = 64;

  /// Throws InvalidArgument for sizes that are negative, or more than any memory.
  GroupLayout(const ParameterGroup& group, int ranks);

  /// Elements of the range: `ranks` times those of a shard.
  [[nodiscard]] std::int64_t elements() const noexcept { return elements_; }
  [[nodiscard]] std::int64_t shard_elements() const noexcept { return shard_elements_; }
  /// Where each parameter lies in the range, and its sizes.
  [[nodiscard]] std::span<const Shard> places() const noexcept { return places_; }
  [[nodiscard]] std::span<const Dims> sizes() const noexcept { return sizes_; }
  /// The elements that belong to no parameter.
  [[nodiscard]] std::span<const Shard> gaps() const noexcept { return gaps_; }
  /// What the shard of `rank` has of the parameters, in order; those of which it has nothing are left out.
  [[nodiscard]] std::vector<ParameterPiece> pieces(int rank) const;

 private:
  std::int64_t elements_ = 0;
  std::int64_t shard_elements_ = 0;
  std::vector<Shard> places_;
  std::vector<Dims> sizes_;
  std::vector<Shard> gaps_;
};

/// Elements of the largest group, and of its shard.
[[nodiscard]] std::int64_t elements_of_largest(std::span<const GroupLayout> layouts) noexcept;
[[nodiscard]] std::int64_t shard_of_largest(std::span<const GroupLayout> layouts) noexcept;

}  // namespace tandem
