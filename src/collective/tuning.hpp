// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "tandem/base/device_id.hpp"
#include "tandem/device/device.hpp"

namespace tandem {

/// One access of a kernel at its best.
inline constexpr std::size_t vector_bytes = 16;

/// Sizes at which the schedules change, measured once for each kind of device (docs/performance/ says how).
struct CollectiveTuning {
  std::size_t piece_bytes;               ///< of a message through staging memory: on the host it stays in the cache
  std::size_t one_shot_bytes;            ///< an all-reduce of plain views up to here is read whole by every rank
  std::size_t one_shot_symmetric_bytes;  ///< the same of symmetric tensors, which have no copies to save
  std::size_t staged_bytes;       ///< up to here (of one rank) one exchange less is worth a copy through staging memory
  std::size_t letter_bytes;       ///< up to here a message to one peer goes by mail; 0: the device sends none
  std::size_t only_letter_bytes;  ///< the same between two ranks, each of which writes one letter and reads one
  std::size_t mailed_bytes;       ///< and up to here a message that goes to every peer, all its copies together
  std::size_t one_kernel_bytes;   ///< up to here an all-reduce is one kernel's, where the device has one for it
  std::size_t one_kernel_link_bytes;     ///< the same of what a rank sends where shards are gathered, or summed
  std::size_t direct_above_bytes;        ///< above this (by mail) one kernel works on symmetric tensors instead
  std::size_t direct_copy_of_two_bytes;  ///< the same between two ranks, which meet sooner, of what is copied
  std::size_t direct_gather_bytes;       ///< up to here (on a rank's links) for gathers: then copies are as fast
  std::size_t direct_exchange_bytes;     ///< the same for all-to-alls, whose own part slows copies
  std::size_t direct_scatter_bytes;      ///< the same for sums of shards: then all threads are faster
  std::size_t direct_pass_bytes;         ///< above this (by mail) one kernel has several ranks pass a broadcast on
  std::size_t one_step_bytes;       ///< so many bytes more on a rank's link cost one kernel no more than a second step
  std::size_t fetched_bytes;        ///< from here on (of one rank) plain views are read where they are, if ranks can
  std::size_t fetched_twice_bytes;  ///< the same where that takes two rounds, as in an all-reduce
  double cheap_loan;                ///< all that where a read takes up to so many copies' time (loan_cost)
  std::size_t dear_fetched_bytes;   ///< and where it takes longer: of two ranks from here on, of more never
  std::size_t dear_fetched_twice_bytes;
};

inline constexpr CollectiveTuning host_tuning = {.piece_bytes = std::size_t{512} << 10,
                                                 .one_shot_bytes = std::size_t{16} << 10,
                                                 .one_shot_symmetric_bytes = std::size_t{4} << 10,
                                                 .staged_bytes = std::size_t{4} << 10,
                                                 .letter_bytes = std::size_t{1} << 10,
                                                 .only_letter_bytes = std::size_t{2} << 10,
                                                 .mailed_bytes = std::size_t{2} << 10,
                                                 .one_kernel_bytes = 0,
                                                 .one_kernel_link_bytes = 0,
                                                 .direct_above_bytes = SIZE_MAX,
                                                 .direct_copy_of_two_bytes = SIZE_MAX,
                                                 .direct_gather_bytes = 0,
                                                 .direct_exchange_bytes = 0,
                                                 .direct_scatter_bytes = 0,
                                                 .direct_pass_bytes = SIZE_MAX,
                                                 .one_step_bytes = 0,
                                                 .fetched_bytes = std::size_t{16} << 10,
                                                 .fetched_twice_bytes = std::size_t{64} << 10,
                                                 .cheap_loan = 3,
                                                 .dear_fetched_bytes = std::size_t{4} << 20,
                                                 .dear_fetched_twice_bytes = std::size_t{16} << 20};
inline constexpr CollectiveTuning cuda_tuning = {.piece_bytes = std::size_t{32} << 20,
                                                 .one_shot_bytes = std::size_t{128} << 10,
                                                 .one_shot_symmetric_bytes = std::size_t{128} << 10,
                                                 .staged_bytes = 0,
                                                 .letter_bytes = 0,
                                                 .only_letter_bytes = 0,
                                                 .mailed_bytes = 0,
                                                 .one_kernel_bytes = std::size_t{4} << 20,
                                                 .one_kernel_link_bytes = std::size_t{4} << 20,
                                                 .direct_above_bytes = std::size_t{2} << 20,
                                                 .direct_copy_of_two_bytes = std::size_t{768} << 10,
                                                 .direct_gather_bytes = std::size_t{64} << 20,
                                                 .direct_exchange_bytes = std::size_t{256} << 20,
                                                 .direct_scatter_bytes = std::size_t{16} << 20,
                                                 .direct_pass_bytes = std::size_t{1536} << 10,
                                                 .one_step_bytes = std::size_t{576} << 10,
                                                 .fetched_bytes = SIZE_MAX,
                                                 .fetched_twice_bytes = SIZE_MAX,
                                                 .cheap_loan = 0,
                                                 .dear_fetched_bytes = SIZE_MAX,
                                                 .dear_fetched_twice_bytes = SIZE_MAX};
[[nodiscard]] constexpr const CollectiveTuning& collective_tuning(DeviceType type) noexcept {
  switch (type) {
    case DeviceType::host: return host_tuning;
    case DeviceType::cuda: return cuda_tuning;
  }
  return host_tuning;
}

/// Up to how many bytes of a shard one kernel gathers all, or sums for one rank, where the device has one.
[[nodiscard]] constexpr std::size_t one_kernel_shard_bytes(const CollectiveTuning& tuning, int ranks) noexcept {
  return tuning.one_kernel_link_bytes / static_cast<std::size_t>(ranks > 1 ? ranks - 1 : 1);
}

/// Above how many bytes that a rank would send by mail one kernel copies symmetric tensors to their places instead,
/// where the device has one and nothing else was asked for.
[[nodiscard]] constexpr std::size_t direct_copy_above(const CollectiveTuning& tuning, int ranks) noexcept {
  return ranks <= 2 ? tuning.direct_copy_of_two_bytes : tuning.direct_above_bytes;
}

/// Whether it does so, or sums them, with shards of up to so many bytes, where it is for more than `above` and up to
/// `most` on a rank's links. Vector accesses have to fit, on all ranks alike.
[[nodiscard]] constexpr bool direct_shard_wins(int ranks, std::size_t shard, std::size_t above,
                                               std::size_t most) noexcept {
  const std::size_t sent = shard * static_cast<std::size_t>(ranks - 1);
  return shard % vector_bytes == 0 && sent > above && sent <= most;
}

/// Up to how many bytes one kernel does it all, where nobody says otherwise: of an all-reduce, and of a shard that is
/// gathered or summed for one rank. 0 for both where there is no such kernel, or nobody to talk to.
struct OneKernelLimit {
  std::size_t whole = 0;
  std::size_t shard = 0;
};
[[nodiscard]] inline OneKernelLimit one_kernel_limit(const Device& device, int ranks) noexcept {
  if (!device.exchanges_mail() || ranks == 1 || static_cast<std::size_t>(ranks) > max_reduce_operands) return {};
  const CollectiveTuning& tuning = collective_tuning(device.id().type);
  return {tuning.one_kernel_bytes, one_kernel_shard_bytes(tuning, ranks)};
}

/// Whether an all-reduce is read whole by every rank, where nothing else was asked for.
[[nodiscard]] constexpr bool one_shot_wins(const CollectiveTuning& tuning, int ranks, std::size_t bytes,
                                           bool symmetric) noexcept {
  if (symmetric) return bytes <= tuning.one_shot_symmetric_bytes;
  return ranks <= 2 || bytes <= tuning.one_shot_bytes;
}

/// Up to how many bytes an all-reduce in one kernel takes one step, in which each rank sends all to all peers; two move
/// less, but wait for peers twice. Two ranks send as much either way.
[[nodiscard]] constexpr std::size_t one_step_up_to(const CollectiveTuning& tuning, int ranks) noexcept {
  if (ranks <= 2) return SIZE_MAX;
  const auto n = static_cast<std::size_t>(ranks);
  return tuning.one_step_bytes * n / ((n - 1) * (n - 2));
}

/// Above how many bytes an all-reduce of symmetric tensors is one kernel's on these, where the device has one: of two
/// ranks where one step by mail ends to win, of more before a second one began to.
[[nodiscard]] constexpr std::size_t direct_all_reduce_above(const CollectiveTuning& tuning, int ranks) noexcept {
  return std::min(tuning.direct_above_bytes, one_step_up_to(tuning, ranks));
}

/// How many bytes of an all-reduce in two steps of one kernel a rank adds up, so that each begins where vector accesses
/// like it.
[[nodiscard]] constexpr std::size_t kernel_chunk(std::size_t bytes, int ranks) noexcept {
  const auto n = static_cast<std::size_t>(ranks);
  return ((bytes + n - 1) / n + 15) / 16 * 16;
}

/// Whether an all-gather or a reduce-scatter of symmetric tensors goes through staging memory as one of plain views
/// does, where nothing else was asked for. `bytes` are the largest shard's.
[[nodiscard]] constexpr bool staged_wins(const CollectiveTuning& tuning, std::size_t bytes) noexcept {
  return bytes <= tuning.staged_bytes;
}

/// The longest message that so many ranks send by mail where nothing else was asked for, each written `copies` times.
[[nodiscard]] constexpr std::size_t longest_letter(const CollectiveTuning& tuning, int ranks, int copies = 1) noexcept {
  const std::size_t letter = ranks == 2 ? tuning.only_letter_bytes : tuning.letter_bytes;
  return std::min(letter, tuning.mailed_bytes / static_cast<std::size_t>(std::max(copies, 1)));
}

/// From how many bytes of the largest shard on a collective reads plain views where they are, in so many rounds, where
/// ranks can (at that `loan_cost`) and nothing else was asked for.
[[nodiscard]] constexpr std::size_t fetched_from(const CollectiveTuning& tuning, int ranks, int rounds,
                                                 double loan_cost) noexcept {
  if (loan_cost <= tuning.cheap_loan) return rounds > 1 ? tuning.fetched_twice_bytes : tuning.fetched_bytes;
  if (ranks > 2) return SIZE_MAX;
  return rounds > 1 ? tuning.dear_fetched_twice_bytes : tuning.dear_fetched_bytes;
}

/// What is left of a broadcast when the root has sent so many of its `readers` their shares, which they pass on to each
/// other, one copy after the other. Each share is such that it is everywhere when the last one is: the earlier it
/// leaves the root, the more there is time for.
[[nodiscard]] constexpr double left_to_share(int readers, int shares) noexcept {
  double left = 1;
  for (int i = 0; i < shares; ++i) left *= 1 - 1.0 / readers;
  return left;
}

/// Above how many bytes that is faster than to send all to each: whoever passes on waits for the root, and for a signal
/// of each of the others.
[[nodiscard]] constexpr std::size_t passed_on_above(const CostTable& costs, int readers) noexcept {
  if (readers < 2) return SIZE_MAX;
  const double hops = 2.0 * readers * costs.link_latency_seconds;
  const double saved = readers - 1 / (1 - left_to_share(readers, readers));  // of the whole's time on a link
  return static_cast<std::size_t>(hops * costs.link_bytes_per_second / saved);
}

/// Whether a broadcast into symmetric tensors is pulled from the root, where nothing else was asked for: where copies
/// take cores, the receivers' cores copy side by side.
[[nodiscard]] constexpr bool pull_wins(const CostTable& costs) noexcept { return costs.copies_cost_compute; }

}  // namespace tandem
