// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <gtest/gtest.h>
#include <memory>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "tandem/base/dtype.hpp"
#include "tandem/base/scalar.hpp"
#include "tandem/device/buffer.hpp"
#include "tandem/device/device.hpp"

#include "support/oracle.hpp"
#include "support/ranks.hpp"

namespace tandem::testing {

/// A suite that runs on each type of device, using `Device` alone; skipped, with the reason, if there is none.
class OnDevice : public ::testing::TestWithParam<DeviceType> {
 protected:
  void SetUp() override {
    if (device_count(GetParam()) == 0) GTEST_SKIP() << why_no_device(GetParam());
    device_ = open_device({GetParam(), 0}, options());
    random_.seed(seed());
  }

  [[nodiscard]] virtual DeviceOptions options() const { return {}; }
  [[nodiscard]] Device& device() const { return *device_; }
  [[nodiscard]] bool on_host() const { return GetParam() == DeviceType::host; }

  [[nodiscard]] Buffer memory(std::size_t bytes) const { return {device_, bytes}; }
  template <typename T> [[nodiscard]] Buffer upload(const std::vector<T>& values) const {
    Buffer buffer(device_, values.size() * sizeof(T));
    device_->upload(buffer.data(), values.data(), buffer.bytes());
    return buffer;
  }
  template <typename T> [[nodiscard]] std::vector<T> download(const Buffer& buffer) const {
    std::vector<T> values(buffer.bytes() / sizeof(T));
    device_->download(values.data(), buffer.data(), buffer.bytes());
    return values;
  }

  [[nodiscard]] std::vector<std::byte> random_bytes(std::size_t count) {
    return testing::random_bytes(random_(), count);
  }
  [[nodiscard]] std::int64_t random_between(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
  }
  [[nodiscard]] std::mt19937_64& random() { return random_; }

  std::shared_ptr<Device> device_;

 private:
  std::mt19937_64 random_;
};

inline std::string type_name(const ::testing::TestParamInfo<DeviceType>& info) { return std::string(name(info.param)); }

#define TANDEM_ON_EACH_DEVICE(Suite) \
  INSTANTIATE_TEST_SUITE_P(Each, Suite, ::testing::Values(DeviceType::host, DeviceType::cuda), type_name)

/// Calls `function` with a value of the type that stores `dtype`.
template <typename Function> void with_storage(DType dtype, Function&& function) {
  switch (dtype) {
    case DType::f32: return function(Storage<DType::f32>{});
    case DType::f16: return function(Storage<DType::f16>{});
    case DType::bf16: return function(Storage<DType::bf16>{});
    case DType::f64: return function(Storage<DType::f64>{});
    case DType::i32: return function(Storage<DType::i32>{});
    case DType::i64: return function(Storage<DType::i64>{});
    case DType::u8: return function(Storage<DType::u8>{});
    case DType::f8e4m3: return function(Storage<DType::f8e4m3>{});
    case DType::f8e5m2: return function(Storage<DType::f8e5m2>{});
  }
}

template <typename T> double to_double(T value) {
  if constexpr (std::is_class_v<T>) {
    return static_cast<double>(static_cast<float>(value));
  } else {
    return static_cast<double>(value);
  }
}

/// Values of a normal distribution, rounded to T (integers: -100 to 100, or 0 to 20 for u8).
template <typename T> std::vector<T> random_values(std::mt19937_64& random, std::size_t count) {
  std::vector<T> values(count);
  if constexpr (std::is_integral_v<T>) {
    std::uniform_int_distribution<int> any(sizeof(T) == 1 ? 0 : -100, sizeof(T) == 1 ? 20 : 100);
    for (T& value : values) value = static_cast<T>(any(random));
  } else {
    std::normal_distribution<float> any;
    for (T& value : values) value = T(any(random));
  }
  return values;
}

inline double gelu(Activation activation, double x) {
  switch (activation) {
    case Activation::none: return x;
    case Activation::gelu_erf: return 0.5 * x * std::erfc(-x * std::sqrt(0.5));
    case Activation::gelu_tanh: return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  }
  return 0;
}

inline double gelu_grad(Activation activation, double x) {
  switch (activation) {
    case Activation::none: return 1;
    case Activation::gelu_erf:
      return 0.5 * std::erfc(-x * std::sqrt(0.5)) + x * std::exp(-0.5 * x * x) / std::sqrt(2 * M_PI);
    case Activation::gelu_tanh: {
      const double t = std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x));
      return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * std::sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
    }
  }
  return 0;
}

}  // namespace tandem::testing
