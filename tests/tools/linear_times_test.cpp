// SPDX-License-Identifier: Apache-2.0
#include "tools/linear_times.hpp"

#include <gtest/gtest.h>

namespace tandem::tools {
namespace {

TEST(LocalProduct, HasTheLayoutsOfTheOperation) {
  for (const LinearKind kind :
       {LinearKind::all_gather_linear, LinearKind::linear_reduce_scatter, LinearKind::linear_all_reduce}) {
    for (const Layout x : {Layout::normal, Layout::transposed}) {
      for (const Layout weight : {Layout::normal, Layout::transposed}) {
        const LinearProblem problem{
            .kind = kind, .shape = {6, 5, 7}, .ranks = 2, .x_layout = x, .weight_layout = weight};
        const GemmSpec product = local_product(problem, 1);
        EXPECT_EQ(product.transpose_a, x == Layout::transposed);
        EXPECT_EQ(product.transpose_b, weight == Layout::normal);  // [n, k], as PyTorch stores it
        EXPECT_EQ(product.m, 6);
        EXPECT_EQ(product.n, kind == LinearKind::all_gather_linear ? 2 : 5);
        EXPECT_EQ(product.k, kind == LinearKind::all_gather_linear ? 7 : 3);
      }
    }
  }
}

TEST(LocalProduct, OfAGradientSumsOverTokens) {
  LinearProblem problem{.kind = LinearKind::linear_weight_gradient, .shape = {6, 5, 7}, .ranks = 2, .dtype = bf16};
  const GemmSpec product = local_product(problem, 1);
  EXPECT_TRUE(product.transpose_a);
  EXPECT_FALSE(product.transpose_b);
  EXPECT_EQ(product.m, 2);
  EXPECT_EQ(product.n, 7);
  EXPECT_EQ(product.k, 6);
  EXPECT_EQ(product.out_dtype, f32);
  problem.gradient_dtype = bf16;
  EXPECT_EQ(local_product(problem, 1).out_dtype, bf16);
}

}  // namespace
}  // namespace tandem::tools
