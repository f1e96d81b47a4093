// SPDX-License-Identifier: Apache-2.0
#include "tandem/linear/tuned_product.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "tandem/base/error.hpp"

#include "base/format.hpp"
#include "device/gemm_check.hpp"
#include "team/or_abort.hpp"
#include "team/wire.hpp"

namespace tandem {
namespace {

std::string text_of(const GemmSpec& spec, std::int64_t m) {
  return format("m={} n={} k={}{}{} {} into {}{}{}", m, spec.n, spec.k, spec.transpose_a ? " A transposed" : "",
                spec.transpose_b ? " B transposed" : "", operands_of(spec), name(spec.out_dtype),
                spec.tf32 ? " in TF32" : "", spec.leave_sms > 0 ? format(" leaving {} SMs", spec.leave_sms) : "");
}

/// What the first rank's plan cache has for this rank's GEMM: the ranks' plan caches may be different files.
std::vector<GemmAlgorithm> agreed_algorithms(const Team& team, const GemmSpec& spec) {
  const PlanCache cache(team.rank() == 0 ? team.env().plan_cache : "");
  if (team.size() == 1) return kept_algorithms(spec, team.device(), cache, team.log());

  Parcel mine;
  mine.bytes = WireWriter().number(spec.m).number(spec.n).number(spec.k).take();
  const std::vector<Parcel> sizes = team.exchange("the sizes of a local product", std::move(mine));
  Parcel answers;
  const auto answer = [&] {
    std::map<std::array<std::int64_t, 3>, std::vector<GemmAlgorithm>> known;
    WireWriter out;
    for (const Parcel& each : sizes) {
      WireReader reader(each.bytes);
      GemmSpec its = spec;
      its.m = reader.number<std::int64_t>();
      its.n = reader.number<std::int64_t>();
      its.k = reader.number<std::int64_t>();
      const auto [found, is_new] = known.try_emplace({its.m, its.n, its.k});
      if (is_new) found->second = kept_algorithms(its, team.device(), cache, team.log());
      out.number(static_cast<std::uint64_t>(found->second.size()));
      for (const GemmAlgorithm& algorithm : found->second) out.number(algorithm.m).text(algorithm.name);
    }
    answers.bytes = out.take();
  };
  if (team.rank() == 0) or_abort(team, "the algorithms of local products", answer);
  const std::vector<Parcel> all = team.exchange("the algorithms of local products", std::move(answers));
  WireReader reader(all.front().bytes);
  std::vector<GemmAlgorithm> algorithms;
  for (int rank = 0; rank <= team.rank(); ++rank) {
    algorithms.clear();
    for (auto left = reader.number<std::uint64_t>(); left > 0; --left) {
      const auto m = reader.number<std::int64_t>();
      algorithms.push_back({.m = m, .name = reader.text()});
    }
  }
  return algorithms;
}

}  // namespace

std::string product_cache_key(const GemmSpec& spec, std::int64_t m, const Device& device) {
  return PlanCache::key("local product", text_of(spec, m), 1, device);
}

std::vector<std::int64_t> tuned_rows(const GemmSpec& spec) {
  std::vector<std::int64_t> rows = planned_rows(spec.m);
  std::erase_if(rows, [&](std::int64_t m) { return m < spec.m / 8; });
  return rows;
}

std::vector<GemmAlgorithm> kept_algorithms(const GemmSpec& spec, const Device& device, const PlanCache& cache,
                                           const Log& log) {
  const std::vector<std::int64_t> rows = tuned_rows(spec);
  std::vector<std::string> keys;
  for (const std::int64_t m : rows) keys.push_back(product_cache_key(spec, m, device));
  const std::vector<std::optional<TunedChoice>> kept = cache.find_all(keys, log);
  std::vector<GemmAlgorithm> algorithms;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (kept[i]) algorithms.push_back({.m = rows[i], .name = kept[i]->algorithm});
  }
  return algorithms;
}

std::unique_ptr<Gemm> tuned_gemm(const Team& team, const GemmSpec& spec) {
  return std::move(tuned_gemms(team, spec, 1).front());
}

std::vector<std::unique_ptr<Gemm>> tuned_gemms(const Team& team, const GemmSpec& spec, std::size_t count) {
  Device& device = team.device();
  std::vector<GemmAlgorithm> algorithms;
  if (device.has_gemm_algorithms()) algorithms = agreed_algorithms(team, spec);
  return or_abort(team, "a local product", [&] {
    std::vector<std::unique_ptr<Gemm>> gemms;
    gemms.push_back(device.gemm(spec));
    // Algorithms that were measured without bias and activation may not be offered with them.
    std::erase_if(algorithms, [&](const GemmAlgorithm& kept) {
      const std::vector<std::string> offered = gemms.front()->algorithms(kept.m);
      if (std::ranges::find(offered, kept.name) != offered.end()) return false;
      team.log().write_once(
          LogLevel::warn,
          format("what the plan cache has of the local product {} is ignored: the library does not offer '{}'",
                 text_of(spec, kept.m), kept.name));
      return true;
    });
    if (!algorithms.empty()) gemms.clear();  // frees its workspace
    while (gemms.size() < count) gemms.push_back(device.gemm(spec, algorithms));
    return gemms;
  });
}

}  // namespace tandem
