// SPDX-License-Identifier: Apache-2.0
// GemmSpec::tf32
#include <cstddef>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <vector>

#include "tandem/base/error.hpp"
#include "tandem/device/gemm.hpp"

#include "device/on_device.hpp"
#include "support/errors.hpp"
#include "support/oracle.hpp"

namespace tandem::testing {
namespace {

class Tf32Test : public OnDevice {
 protected:
  void check(const GemmSpec& spec) {
    SCOPED_TRACE(std::to_string(spec.m) + " x " + std::to_string(spec.n) + " x " + std::to_string(spec.k) +
                 (spec.transpose_a ? " T" : " N") + (spec.transpose_b ? "T " : "N ") + device().gemm(spec)->describe());
    const std::uint64_t seed = random()();
    const std::vector<double> a = testing::random_values(key(seed, {0}), spec.m * spec.k, f32);
    const std::vector<double> b = testing::random_values(key(seed, {1}), spec.k * spec.n, f32);
    const std::vector<double> bias = testing::random_values(key(seed, {2}), spec.bias ? spec.n : 0, f32);
    const std::vector<double> start = testing::random_values(key(seed, {3}), spec.m * spec.n, f32);
    Product product{.m = spec.m, .n = spec.n, .k = spec.k, .a = a, .b = b, .bias = bias};
    if (spec.beta != 0.0F) product.start = start;
    product.beta = static_cast<double>(spec.beta);
    product.activation = spec.activation;
    product.tf32 = true;

    const Buffer a_memory = on_device(spec.transpose_a ? transposed(a, spec.m, spec.k) : a);
    const Buffer b_memory = on_device(spec.transpose_b ? transposed(b, spec.k, spec.n) : b);
    const Buffer bias_memory = on_device(bias);
    const Buffer d = on_device(start);
    multiply(spec, a_memory, b_memory, bias_memory, d);
    const Comparison compared = compare(expected_product(product), download<float>(d).data());
    EXPECT_EQ(compared.wrong, 0) << to_string(compared);
  }

  [[nodiscard]] Buffer on_device(const std::vector<double>& values) const {
    return upload(std::vector<float>(values.begin(), values.end()));
  }
  void multiply(const GemmSpec& spec, const Buffer& a, const Buffer& b, const Buffer& bias, const Buffer& d) const {
    const Stream stream(device());
    const std::unique_ptr<Gemm> gemm = device().gemm(spec);
    gemm->run(stream, {.a = a.data(), .b = b.data(), .d = d.data(), .bias = spec.bias ? bias.data() : nullptr});
    stream.synchronize();
  }
};

TEST_P(Tf32Test, IsRightInEveryLayout) {
  const GemmSpec shapes[] = {{.m = 128, .n = 72, .k = 264, .tf32 = true, .beta = 0.5F},
                             {.m = 16, .n = 24, .k = 3000, .tf32 = true, .bias = true},
                             {.m = 1, .n = 8, .k = 4, .tf32 = true},
                             {.m = 67, .n = 41, .k = 53, .tf32 = true, .activation = Activation::gelu_tanh}};
  for (GemmSpec spec : shapes) {
    for (const int layout : {0, 1, 2, 3}) {
      spec.transpose_a = (layout & 1) != 0;
      spec.transpose_b = (layout & 2) != 0;
      check(spec);
    }
  }
}

// TF32 cannot represent 1 + 2^-12, so the sums show whether the operands were rounded.
TEST_P(Tf32Test, RoundsOnlyWhereItIsAskedForAndTheDeviceHasIt) {
  constexpr std::int64_t size = 64;
  constexpr float exact = size + size * 0x1p-12F;
  const Buffer a = upload(std::vector<float>(size * size, 1 + 0x1p-12F));
  const Buffer b = upload(std::vector<float>(size * size, 1));
  for (const bool tf32 : {false, true}) {
    const Buffer d = upload(std::vector<float>(size * size, 0));
    multiply({.m = size, .n = size, .k = size, .tf32 = tf32}, a, b, {}, d);
    const bool rounds = tf32 && !on_host();
    for (const float sum : download<float>(d)) ASSERT_EQ(sum != exact, rounds) << sum << ", tf32 " << tf32;
  }
}

TEST_P(Tf32Test, SaysWhatItDoes) {
  const std::string described = device().gemm({.m = 64, .n = 64, .k = 64, .tf32 = true})->describe();
  expect_says(described, {on_host() ? "has no TF32" : "in TF32"});
}

TEST_P(Tf32Test, IsForF32Alone) {
  expect_error<InvalidArgument>(
      [&] {
        static_cast<void>(device().gemm({.m = 4, .n = 4, .k = 4, .dtype = bf16, .out_dtype = bf16, .tf32 = true}));
      },
      {"bf16", "TF32", "f32"});
}

TANDEM_ON_EACH_DEVICE(Tf32Test);

}  // namespace
}  // namespace tandem::testing
