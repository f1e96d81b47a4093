// SPDX-License-Identifier: Apache-2.0
#include "device/hopper_costs.hpp"

namespace tandem {

CostTable hopper_costs(int multiprocessors, double memory_bytes_per_second) noexcept {
  return {.gemm_flops_per_second = 750e12,
          .gemm_float8_flops_per_second = 1300e12,
          .gemm_f32_flops_per_second = 50e12,
          .gemm_tf32_flops_per_second = 350e12,
          .gemm_launch_seconds = 5e-6,
          .gemm_tile = 128,
          .gemm_tiles_at_once = multiprocessors,
          .hop_seconds = 5e-6,
          .link_bytes_per_second = 360e9,
          .link_latency_seconds = 10e-6,
          .push_gap_seconds = 5e-6,
          .takes_beside_pushes_cost = 0.4,
          .load_bytes_per_second = 330e9,
          .store_bytes_per_second = 220e9,
          .memory_bytes_per_second = 0.75 * memory_bytes_per_second,
          .weights_bytes_per_second = 0.85 * memory_bytes_per_second,
          .cache_bytes = 50e6,
          .weights_hold_up_compute = false,
          .stores_hold_up_compute = 0.3,
          .finer_groups_may_cost = 0.003,
          .slowest_rank = 1.05,
          .overlap_must_gain = 0.02,
          .kernels_reach_peers = true,
          .copies_cost_compute = false};
}

}  // namespace tandem
