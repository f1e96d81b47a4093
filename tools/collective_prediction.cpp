// SPDX-License-Identifier: Apache-2.0
#include "tools/collective_prediction.hpp"

#include "collective/tuning.hpp"

namespace tandem::tools {
namespace {

/// What "auto" comes to.
std::string chosen(Operation operation, const Form& form, int ranks, std::int64_t bytes, const Device& device,
                   std::optional<double> loan_cost) {
  const CollectiveTuning tuning = collective_tuning(device.id().type);
  const auto shard = static_cast<std::size_t>(bytes / ranks);
  const bool staged = staged_wins(tuning, shard);
  const std::size_t read = operation == Operation::broadcast ? static_cast<std::size_t>(bytes) : shard;
  const bool fetches = loan_cost && !form.symmetric_input && !form.symmetric_output;
  const bool one_message = operation == Operation::all_reduce || operation == Operation::broadcast;
  const std::size_t message = one_message ? static_cast<std::size_t>(bytes) : shard;
  const int copies = operation == Operation::reduce_scatter || operation == Operation::all_to_all ? 1 : ranks - 1;
  if (mail_wins(tuning, message, copies)) return "mail";
  const bool in_one_kernel = ranks > 1 && device.exchanges_mail();
  if (ranks > 1 && device.meets()) {
    const bool scatters = operation == Operation::reduce_scatter;
    const bool symmetric = scatters ? form.symmetric_input : form.symmetric_output;
    const bool shards = scatters || operation == Operation::all_gather;
    const std::size_t most = scatters ? tuning.direct_scatter_bytes : tuning.direct_gather_bytes;
    if (symmetric && shards && direct_shard_wins(tuning, ranks, shard, most)) return "direct_kernel";
    if (symmetric && operation == Operation::all_reduce && direct_sum_wins(tuning, message)) return "direct_kernel";
  }
  if (operation != Operation::all_reduce && in_one_kernel && message <= one_kernel_shard_bytes(tuning, ranks)) {
    return "one_kernel";
  }
  if (fetches && read >= fetched_from(tuning, ranks, operation == Operation::all_reduce ? 2 : 1, *loan_cost))
    return "fetch";
  switch (operation) {
    case Operation::all_gather:
      if (form.symmetric_output && staged) return "pull";
      break;
    case Operation::reduce_scatter:
      if (form.symmetric_input && staged) return "staged";
      break;
    case Operation::all_reduce:
      if (in_one_kernel && message <= tuning.one_kernel_bytes) {
        return message <= one_step_up_to(tuning, ranks) ? "one_kernel" : "one_kernel_two_shot";
      }
      return one_shot_wins(tuning, ranks, static_cast<std::size_t>(bytes), form.symmetric_output) ? "one_shot"
                                                                                                  : "two_shot";
    case Operation::broadcast:
      if (form.symmetric_output) return pull_wins(device.costs()) ? "pull" : "push";
      break;
    default: break;
  }
  return algorithms(operation, form)[1];  // the only one, but for fetch, mail and kernels
}

}  // namespace

CollectivePrediction predict(Operation operation, const std::string& algorithm, const Form& form, int ranks,
                             std::int64_t bytes, const Device& device, std::optional<double> loan_cost) {
  const std::string runs = algorithm == "auto" ? chosen(operation, form, ranks, bytes, device, loan_cost) : algorithm;
  const CostTable costs = device.costs();
  const auto whole = static_cast<double>(bytes);
  const double shard = whole / ranks;
  const double peers = ranks - 1;
  double rounds = 1;
  double carried = peers * shard;  // by one rank's link
  double touched = 0;              // read or written in one rank's memory
  switch (operation) {
    case Operation::all_gather:
      if (runs == "pull") touched = 2 * shard;                                  // into the slot
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
      carried = sends ? peers * whole : whole;  // the root's link, or each other rank's own
      if (runs != "push" && runs != "pull" && runs != "fetch") touched = 2 * whole;
      break;
    }
    default:
      if (ranks == 1) return {.algorithm = "copy", .seconds = 2 * whole / costs.memory_bytes_per_second};
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
  return {.algorithm = runs,
          .seconds = rounds * costs.link_latency_seconds + carried / costs.link_bytes_per_second +
                     touched / costs.memory_bytes_per_second};
}

}  // namespace tandem::tools
