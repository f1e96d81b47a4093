// SPDX-License-Identifier: Apache-2.0
#include "language_model/text.hpp"

#include <utility>

#include "tandem/base/error.hpp"

#include "language_model/random.hpp"

namespace tandem::language_model {

Text::Text(std::string bytes, std::int64_t context) : bytes_(std::move(bytes)), context_(context) {
  if (static_cast<std::int64_t>(bytes_.size()) <= context_) {
    throw InvalidArgument("the text has " + std::to_string(bytes_.size()) + " bytes; more than " +
                          std::to_string(context_) + " are needed, the length of a context");
  }
}

Tokens Text::sample(std::uint64_t seed, std::int64_t step, const Shard& rows) const {
  const std::uint64_t key = random_bits(seed, static_cast<std::uint64_t>(step));
  const std::uint64_t places = bytes_.size() - static_cast<std::uint64_t>(context_);
  Tokens tokens;
  for (std::int64_t row = rows.begin; row < rows.begin + rows.count; ++row) {
    const auto place = static_cast<std::ptrdiff_t>(random_bits(key, static_cast<std::uint64_t>(row)) % places);
    const auto first = bytes_.begin() + place;
    tokens.contexts.insert(tokens.contexts.end(), first, first + context_);
    tokens.targets.push_back(static_cast<std::uint8_t>(first[context_]));
  }
  return tokens;
}

}  // namespace tandem::language_model
