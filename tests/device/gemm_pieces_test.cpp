// SPDX-License-Identifier: Apache-2.0
// One GEMM split into several runs that share its weights.
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "tandem/device/gemm.hpp"

#include "device/gemm_fixture.hpp"
#include "support/errors.hpp"

namespace tandem::testing {
namespace {

class GemmPiecesTest : public GemmTest {};

TEST_P(GemmPiecesTest, IsRightInPiecesThatShareWeights) {
  for (const bool transpose_b : {false, true}) {
    for (const std::int64_t padding : {0, 5}) {
      for (const Activation activation : {Activation::none, Activation::gelu_erf, Activation::gelu_tanh}) {
        const std::int64_t n = random_between(1, 130);
        const std::int64_t k = random_between(1, 130);
        GemmSpec spec{.m = 90, .n = n, .k = k, .transpose_b = transpose_b, .ldb = (transpose_b ? k : n) + padding};
        check_pieces(spec, {17, 1, 40, 17});
        check_pieces(spec, {0, 33, 0, 1});  // the first run, and others, may have no rows
        spec.bias = true;
        spec.activation = activation;
        check_pieces(spec, {17, 1, 40, 17});
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(GemmPiecesTest, IsRightInLongPiecesAndInMany) {
  GemmSpec spec{.m = 1200, .n = 67, .k = 41, .transpose_b = true};
  check_pieces(spec, {600, 71, 529});
  check_pieces(spec, {71, 600, 529});
  check_pieces({.m = 160, .n = 1024, .k = 70}, {100, 60});  // the weights' rows have a stride of 4 KiB
  check_pieces({.m = 160, .n = 70, .k = 1024, .transpose_b = true}, {100, 60});
  Pieces growing;  // more different lengths than the host keeps kernels for
  for (std::int64_t rows = 1; rows <= 45; ++rows) growing.push_back(rows);
  check_pieces(spec, growing);
  spec.bias = true;
  spec.activation = Activation::gelu_erf;
  check_pieces(spec, {600, 71, 529});
  check_pieces(spec, {1200});
}

TEST_P(GemmPiecesTest, IsRightInPiecesOfAnyKind) {
  const Pieces pieces{17, 1, 40, 17};
  for (const DType dtype : {f32, f16, bf16}) {
    for (const bool transpose_a : {false, true}) {
      for (const float beta : {0.0F, 0.5F}) {
        check_pieces({.m = 75,
                      .n = 37,
                      .k = 51,
                      .transpose_a = transpose_a,
                      .transpose_b = true,
                      .dtype = dtype,
                      .out_dtype = dtype,
                      .alpha = transpose_a ? 1.0F : -0.5F,
                      .beta = beta,
                      .lda = 80},
                     pieces);
        if (HasFatalFailure()) return;
      }
    }
  }
  check_pieces({.m = 75, .n = 37, .k = 51, .beta = 0.5F}, pieces);
  check_pieces({.m = 75, .n = 37, .k = 51, .ldd = 40}, pieces);
  check({.m = 75, .n = 37, .k = 51, .ldb = 51}, 75, 50, {}, pieces);
  check({.m = 75, .n = 37, .k = 51, .bias = true}, 75, 0, {}, pieces);
}

TEST_P(GemmPiecesTest, LeavesSharedWeightsAloneInBetween) {
  // With a bias the host runs these 300 rows in blocks that share packed weights, even if other runs do not.
  const std::int64_t n = 40;
  const GemmSpec spec{.m = 300, .n = n, .k = n, .bias = true};
  std::vector<float> identity(static_cast<std::size_t>(n * n));
  for (std::size_t i = 0; i < identity.size(); i += static_cast<std::size_t>(n) + 1) identity[i] = 1;
  const std::vector<float> x = random_values<float>(random(), static_cast<std::size_t>(spec.m * n));
  const Buffer a = upload(x);
  const Buffer b = upload(identity);
  const Buffer other_b = upload(random_values<float>(random(), identity.size()));
  const Buffer bias = upload(std::vector<float>(static_cast<std::size_t>(n), 0.0F));
  const Buffer d = memory(x.size() * 4);
  const Buffer unread = memory(x.size() * 4);
  Stream stream(device());
  const auto gemm = device().gemm(spec);
  const auto run = [&](const Buffer& weights, const Buffer& out, std::int64_t begin, std::int64_t rows, Weights use) {
    gemm->run(stream, {.a = a.data_as<float>() + begin * n,
                       .b = weights.data(),
                       .d = out.data_as<float>() + begin * n,
                       .bias = bias.data(),
                       .m = rows,
                       .weights = use});
  };
  run(b, d, 0, 100, Weights::first);
  run(other_b, unread, 0, 300, Weights::once);
  run(b, d, 100, 200, Weights::again);
  stream.synchronize();
  EXPECT_EQ(download<float>(d), x);
}

TANDEM_ON_EACH_DEVICE(GemmPiecesTest);

/// Each run is split among several threads, one of which packs the shared weights.
class SharedGemmPiecesTest : public GemmPiecesTest {
 protected:
  [[nodiscard]] DeviceOptions options() const override { return {.gemm_threads = 3}; }
};

TEST_P(SharedGemmPiecesTest, IsRightInPiecesOfSeveralParts) {
  for (const bool transpose_b : {false, true}) {
    const GemmSpec spec{.m = 900, .n = 512, .k = 256, .transpose_b = transpose_b};
    expect_says(device().gemm(spec)->describe(), {"on 3 threads"});
    check_pieces(spec, {300, 450, 150});
    check_pieces(spec, {900});
    check_pieces(spec, {601, 11, 288});
  }
}

INSTANTIATE_TEST_SUITE_P(Host, SharedGemmPiecesTest, ::testing::Values(DeviceType::host), type_name);

TEST(HostGemm, SaysWhetherItPacksWeightsForPieces) {
  const auto device = open_device({});
  const auto packs = [&device](const GemmSpec& spec) {
    return device->gemm(spec)->describe().find("weights packed once for products in pieces") != std::string::npos;
  };
  const GemmSpec spec{.m = 64, .n = 48, .k = 32};
  GemmSpec padded = spec;
  padded.lda = 40;
  EXPECT_FALSE(packs(padded));
  EXPECT_FALSE(packs({.m = 64, .n = 48, .k = 32, .transpose_a = true}));
  EXPECT_FALSE(packs({.m = 64, .n = 48, .k = 32, .dtype = bf16, .out_dtype = bf16}));
#if defined(__x86_64__) && __has_include(<oneapi/dnnl/dnnl.h>)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") != 0;
  const bool same_version = device->gemm(spec)->describe().starts_with("oneDNN 2.6.");  // as Debian 12's headers
  EXPECT_TRUE(packs(spec) || !avx2 || !same_version);
#endif
}

}  // namespace
}  // namespace tandem::testing
