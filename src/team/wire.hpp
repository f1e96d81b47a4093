// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "tandem/base/error.hpp"

namespace tandem {

/// Composes a message of numbers and texts, which `WireReader` reads in the same order on the same machine.
class WireWriter {
 public:
  template <typename T>
    requires std::is_arithmetic_v<T>
  WireWriter& number(T value) {
    append(&value, sizeof(T));
    return *this;
  }
  WireWriter& text(std::string_view value) {
    number(static_cast<std::uint64_t>(value.size()));
    append(value.data(), value.size());
    return *this;
  }
  WireWriter& rest(std::span<const std::byte> value) {
    append(value.data(), value.size());
    return *this;
  }
  [[nodiscard]] std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  void append(const void* data, std::size_t size);

  std::vector<std::byte> bytes_;
};

/// Reads such a message. Throws DeviceError if it is too short: the peer's version may differ from this one.
class WireReader {
 public:
  explicit WireReader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  template <typename T>
    requires std::is_arithmetic_v<T>
  [[nodiscard]] T number() {
    T value;
    std::memcpy(&value, cut(sizeof(T)).data(), sizeof(T));
    return value;
  }
  [[nodiscard]] std::string text() {
    const auto raw = cut(number<std::uint64_t>());
    return {reinterpret_cast<const char*>(raw.data()), raw.size()};
  }
  [[nodiscard]] std::span<const std::byte> rest() { return cut(bytes_.size()); }

 private:
  std::span<const std::byte> cut(std::size_t size) {
    if (size > bytes_.size()) throw DeviceError("a message of a peer's ends too early: is it of another version?");
    const auto head = bytes_.first(size);
    bytes_ = bytes_.subspan(size);
    return head;
  }

  std::span<const std::byte> bytes_;
};

}  // namespace tandem
