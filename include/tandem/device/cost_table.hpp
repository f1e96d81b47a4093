// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tandem/base/concepts.hpp"

namespace tandem {

/// Constants of the cost model for each kind of device (docs/performance/cost_model.md says where they come from).
struct CostTable {
  double gemm_flops_per_second = 0;         ///< of a large GEMM with 16-bit operands
  double gemm_float8_flops_per_second = 0;  ///< with 8-bit operands, as tensor cores take them
  double gemm_f32_flops_per_second = 0;     ///< with f32 operands
  double gemm_tf32_flops_per_second = 0;    ///< with f32 operands that may be rounded (GemmSpec::tf32)
  double gemm_launch_seconds = 0;           ///< fixed cost of each additional GEMM
  int gemm_tile = 0;                        ///< rows and columns of a GEMM's output tile; 0: GEMMs are not tiled
  int gemm_tiles_at_once = 0;               ///< tiles in one wave
  double hop_seconds = 0;                   ///< latency of a dependency between two streams
  double link_bytes_per_second = 0;         ///< from one rank to one peer, large copies
  double link_latency_seconds = 0;          ///< fixed cost of a copy and its signal
  double push_gap_seconds = 0;              ///< between pushes (Device::push), in addition to the transfer time
  double takes_beside_pushes_cost = 0;      ///< fraction added to the time that copies from and to peers overlap
  double load_bytes_per_second = 0;         ///< of a kernel that sums peers' memory, if kernels can access it
  double store_bytes_per_second = 0;        ///< of a GEMM that stores its results into a peer's memory
  double memory_bytes_per_second = 0;       ///< of a reduction, reads plus writes
  double weights_bytes_per_second = 0;      ///< at which a GEMM reads weights that are not cached
  double cache_bytes = 0;                   ///< smaller weights stay cached from one GEMM to the next
  double packed_rows = 0;                   ///< partial GEMMs of up to this many rows share packed weights
  double packing_bytes_per_second = 0;      ///< rate of packing them, once; GEMMs then read them for free; f32 only
  bool weights_hold_up_compute = true;      ///< false: a GEMM reads its weights while it multiplies
  double stores_hold_up_compute = 0;        ///< fraction of peer stores' transfer time added to a GEMM's; 0: none
  double finer_groups_may_cost = 0.01;      ///< fraction by which finer groups may be slower: they tolerate rank skew
  double slowest_rank = 1.1;                ///< time of the slowest rank's GEMMs relative to another rank's
  double overlap_must_gain = 0;             ///< fraction of the sequence's time, and, for `direct`, of the copies'
  bool kernels_reach_peers = false;         ///< one kernel does what follows a GEMM, at link speed
  bool copies_cost_compute = false;         ///< copies run on the compute cores, so they cannot be overlapped
  const char* of_another = nullptr;         ///< what these were measured on, if it is another kind of device than this
};
static_assert(Plain<CostTable>);

}  // namespace tandem
