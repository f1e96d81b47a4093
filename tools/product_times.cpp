// SPDX-License-Identifier: Apache-2.0
#include "tools/product_times.hpp"

#include <algorithm>
#include <memory>
#include <sstream>

#include "tandem/device/device.hpp"
#include "tandem/linear/tuned_product.hpp"

#include "base/format.hpp"
#include "tools/linear_times.hpp"
#include "tools/local_product.hpp"

namespace tandem::tools {
namespace {

// Between two uses of one copy of the weights, this many bytes of weights are read: twice the largest L2 cache of any
// GPU (126 MB on B200; 50 MiB on H200), so that the copy is no longer cached.
constexpr std::size_t cold_bytes = std::size_t{256} << 20;

/// The GEMMs of all ranks without duplicates; every rank measures all. A weight gradient's parts accumulate in f32.
std::vector<GemmSpec> distinct_products(LinearProblem problem) {
  std::vector<GemmSpec> all;
  for (const DType gradient : {problem.gradient_dtype, f32}) {
    problem.gradient_dtype = gradient;
    for (int rank = 0; rank < problem.ranks; ++rank) {
      const GemmSpec spec = local_product(problem, rank);
      const bool known = std::ranges::any_of(all, [&](const GemmSpec& other) {
        return other.m == spec.m && other.n == spec.n && other.k == spec.k && other.out_dtype == spec.out_dtype;
      });
      if (!known && spec.m > 0 && spec.n > 0 && spec.k > 0) all.push_back(spec);
    }
  }
  return all;
}

/// Parts of a weight gradient's GEMM have fewer tokens, over which it sums, but equally many rows: so only one m.
std::vector<ProductTimes> products_of(const Team& team, const LinearProblem& problem) {
  std::vector<ProductTimes> products;
  for (const GemmSpec& spec : distinct_products(problem)) {
    const std::unique_ptr<Gemm> gemm = team.device().gemm(spec);
    for (const std::int64_t m : problem.is_gradient() ? std::vector{spec.m} : tuned_rows(spec)) {
      std::string lines;
      for (const std::string& name : gemm->algorithms(m)) lines += name + '\n';
      std::istringstream names(gather_texts(team, lines).front());  // those of the first rank, on all ranks
      ProductTimes product{.spec = spec, .m = m, .algorithms = {}, .seconds = {}};
      for (std::string name; std::getline(names, name);) product.algorithms.push_back(name);
      if (product.algorithms.size() > 1) products.push_back(std::move(product));
    }
  }
  return products;
}

}  // namespace

std::vector<ProductTimes> measure_products(const Team& team, const LinearProblem& problem, Timing& timing,
                                           StreamRef stream, double limit,
                                           const std::function<void(const std::string&)>& progress) {
  if (!team.device().has_gemm_algorithms()) return {};
  std::vector<ProductTimes> products = products_of(team, problem);
  for (ProductTimes& each : products) {
    progress(format("product of {} rows by {} algorithms", each.m, each.algorithms.size()));
    GemmSpec piece = each.spec;
    piece.m = each.m;
    const LocalProduct product(team, piece, cold_bytes);
    std::size_t turn = 0;
    std::vector<std::unique_ptr<Gemm>> gemms;
    std::vector<std::function<void()>> bodies;
    for (const std::string& name : each.algorithms) {
      const GemmAlgorithm algorithm{.m = each.m, .name = name};
      Gemm& gemm = *gemms.emplace_back(team.device().gemm(piece, {&algorithm, 1}));
      bodies.push_back([&] { product.run(gemm, stream, turn++ % product.copies()); });
    }
    each.seconds = timing.medians_in_turns(bodies, limit / static_cast<double>(products.size()), 5, 100);
  }
  return products;
}

}  // namespace tandem::tools
