// SPDX-License-Identifier: Apache-2.0
#include "tools/collective_prediction.hpp"

#include "collective/tuning.hpp"

namespace tandem::tools {

double predict_seconds(Operation operation, std::string_view runs, const Form& form, int ranks, std::int64_t bytes,
                       const CostTable& costs) {
  const auto whole = static_cast<double>(bytes);
  const double shard = whole / ranks;
  const double peers = ranks - 1;
  double rounds = 1;
  double carried = peers * shard;  // bytes over one rank's link
  double touched = 0;              // bytes read or written in one rank's memory
  switch (operation) {
    case Operation::all_gather:
      if (runs == "staged") touched = 2 * shard;                                // into the slot
      if (runs == "mail" || runs == "one_kernel") touched = 2 * peers * shard;  // out of the mailboxes
      break;
    case Operation::reduce_scatter:
      touched = (ranks + 1) * shard;
      if (runs == "staged") touched += 2 * peers * shard;
      break;
    case Operation::all_to_all:
      if (runs != "push" && runs != "pull" && runs != "fetch") touched = 2 * peers * shard;  // into slots, or mailboxes
      break;
    case Operation::broadcast: {
      const bool sends = runs == "push" || runs == "mail" || runs == "one_kernel";
      carried = sends ? peers * whole : whole;  // by the root's link, or by that of each other rank
      if (runs == "push" && static_cast<std::size_t>(bytes) > passed_on_above(costs, ranks - 1)) {
        rounds = 2;
        carried = whole / (1 - left_to_share(ranks - 1, ranks - 1));
      }
      if (runs == "staged" || runs == "mail" || runs == "one_kernel") touched = 2 * whole;
      break;
    }
    default:
      if (runs == "copy") return 2 * whole / costs.memory_bytes_per_second;
      if (runs == "one_shot") {
        carried = peers * whole;
        touched = (ranks + 1) * whole + 2 * whole;
      } else if (runs == "mail" || runs == "one_kernel") {
        carried = peers * whole;
        touched = (ranks + 1) * whole;
      } else {
        rounds = 2;
        carried = 2 * peers * shard;
        touched = (ranks + 1) * shard;
        if (runs == "one_kernel_two_shot") touched += 2 * peers * shard;  // out of the mailboxes
        if (runs == "two_shot" && !form.symmetric_input && !form.symmetric_output) touched += 2 * peers * shard;
      }
  }
  if (ranks == 1) rounds = carried = 0;
  return rounds * costs.link_latency_seconds + carried / costs.link_bytes_per_second +
         touched / costs.memory_bytes_per_second;
}

}  // namespace tandem::tools
