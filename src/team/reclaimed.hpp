// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

#include "tandem/team/team.hpp"

namespace tandem {

/// Owns a T that queued work may still use when the owner is destroyed: the destructor passes the T to Team::reclaim.
/// T itself must not hold the team, or neither would ever be destroyed.
template <typename T> class Reclaimed {
 public:
  Reclaimed() = default;
  Reclaimed(const Team& team, std::shared_ptr<T> value) : team_(team), value_(std::move(value)) {}
  Reclaimed(Reclaimed&&) noexcept = default;
  Reclaimed& operator=(Reclaimed&& other) noexcept {
    std::swap(team_, other.team_);
    std::swap(value_, other.value_);
    return *this;
  }
  ~Reclaimed() {
    if (value_ != nullptr) team_.reclaim(std::move(value_));
  }

  explicit operator bool() const noexcept { return value_ != nullptr; }
  /// For callers that must keep it alive for longer.
  [[nodiscard]] const std::shared_ptr<T>& shared() const noexcept { return value_; }
  [[nodiscard]] T* operator->() const noexcept { return value_.get(); }
  [[nodiscard]] T& operator*() const noexcept { return *value_; }

 private:
  Team team_;
  std::shared_ptr<T> value_;
};

}  // namespace tandem
