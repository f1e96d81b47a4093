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

/// The text that a model is trained on.
class Text {
 public:
  /// Throws InvalidArgument unless there are more than `context` bytes.
  Text(std::string bytes, std::int64_t context);

  /// Rows of the batch of step `step`, from random positions of the text. A row depends only on seed, step and its
  /// number, so that a batch is the same for any number of ranks.
  [[nodiscard]] Tokens sample(std::uint64_t seed, std::int64_t step, const Shard& rows) const;

  [[nodiscard]] const std::string& bytes() const noexcept { return bytes_; }

 private:
  std::string bytes_;
  std::int64_t context_;
};

}  // namespace tandem::language_model
