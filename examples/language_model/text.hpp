// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tandem/linear/linear_spec.hpp"

namespace tandem::language_model {

/// Some of a batch's tokens: `context` bytes each, and the byte that comes next.
struct Tokens {
  std::vector<std::uint8_t> contexts;  ///< [rows, context]
  std::vector<std::uint8_t> targets;   ///< [rows]
};

/// What a model learns to write.
class Text {
 public:
  /// Throws InvalidArgument unless there are more than `context` bytes.
  Text(std::string bytes, std::int64_t context);

  /// Rows of step `step`'s batch, from random places of the text. A row depends on its number alone, so that a batch is
  /// the same however many ranks share it.
  [[nodiscard]] Tokens sample(std::uint64_t seed, std::int64_t step, const RowRange& rows) const;

  [[nodiscard]] const std::string& bytes() const noexcept { return bytes_; }

 private:
  std::string bytes_;
  std::int64_t context_;
};

}  // namespace tandem::language_model
