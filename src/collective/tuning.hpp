// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "tandem/base/device_id.hpp"
#include "tandem/device/device.hpp"

namespace tandem {

/// The widest access of a kernel.
inline constexpr std::size_t vector_bytes = 16;

/// Sizes at which the schedules change, measured once for each kind of device (docs/performance/ says how).
struct CollectiveTuning {
  std::size_t piece_bytes;               ///< of a message through staging memory: on the host it stays in the cache
  std::size_t one_shot_bytes;            ///< up to this size, all ranks of an all-reduce of plain views read all inputs
  std::size_t one_shot_symmetric_bytes;  ///< the same for symmetric tensors, where that saves no copies
  std::size_t staged_bytes;       ///< up to this shard size, one exchange less is worth a copy through staging memory
  std::size_t letter_bytes;       ///< up to this size, a message to one peer goes by mail; 0: the device has none
  std::size_t only_letter_bytes;  ///< the same between two ranks, each of which writes and reads just one letter
  std::size_t mailed_bytes;       ///< and up to this size, a message to all peers, summed over its copies
  std::size_t one_kernel_bytes;   ///< up to this size, an all-reduce runs as one kernel, if the device has one
  std::size_t one_kernel_link_bytes;     ///< the same for gathers and sums of shards: bytes that a rank sends
  std::size_t direct_above_bytes;        ///< above this (sent by mail), one kernel works directly on symmetric tensors
  std::size_t direct_copy_of_two_bytes;  ///< the same for copies between two ranks, which synchronize sooner
  std::size_t direct_gather_bytes;       ///< for gathers, up to this (on a rank's links): then copies are as fast
  std::size_t direct_exchange_bytes;     ///< the same for all-to-alls, where the own part slows copies
  std::size_t direct_scatter_bytes;      ///< the same for reduce-scatters: then a reduction by all threads is faster
  std::size_t direct_pass_bytes;         ///< above this (sent by mail), one kernel has ranks pass a broadcast on
  std::size_t one_step_bytes;       ///< additional bytes on a rank's link that cost one kernel as much as a second step
  std::size_t fetched_bytes;        ///< from this shard size on, plain views are read in place, if ranks can
  std::size_t fetched_twice_bytes;  ///< the same if that takes two rounds, as in an all-reduce
  double cheap_loan;                ///< both hold if a read takes at most this many copies' time (loan_cost)
  std::size_t dear_fetched_bytes;   ///< if it takes longer: between two ranks from this size on; more never do
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

/// The largest shard that one kernel gathers, or sums for one rank, if the device has one.
[[nodiscard]] constexpr std::size_t one_kernel_shard_bytes(const CollectiveTuning& tuning, int ranks) noexcept {
  return tuning.one_kernel_link_bytes / static_cast<std::size_t>(ranks > 1 ? ranks - 1 : 1);
}

/// "auto": above how many bytes (that a rank would send by mail) one kernel copies symmetric tensors directly, if the
/// device has one.
[[nodiscard]] constexpr std::size_t direct_copy_above(const CollectiveTuning& tuning, int ranks) noexcept {
  return ranks <= 2 ? tuning.direct_copy_of_two_bytes : tuning.direct_above_bytes;
}

/// Whether that kernel, or the one that sums, handles shards of up to `shard` bytes, if it is for more than `above` and
/// up to `most` bytes on a rank's links. Sizes must be multiples of a vector access, which all ranks see alike.
[[nodiscard]] constexpr bool direct_shard_wins(int ranks, std::size_t shard, std::size_t above,
                                               std::size_t most) noexcept {
  const std::size_t sent = shard * static_cast<std::size_t>(ranks - 1);
  return shard % vector_bytes == 0 && sent > above && sent <= most;
}

/// "auto": the largest sizes that one kernel handles: of an all-reduce, and of a shard that is gathered or summed for
/// one rank. Both are 0 if there is no such kernel, or no peer.
struct OneKernelLimit {
  std::size_t whole = 0;
  std::size_t shard = 0;
};
[[nodiscard]] inline OneKernelLimit one_kernel_limit(const Device& device, int ranks) noexcept {
  if (!device.exchanges_mail() || ranks == 1 || static_cast<std::size_t>(ranks) > max_reduce_operands) return {};
  const CollectiveTuning& tuning = collective_tuning(device.id().type);
  return {tuning.one_kernel_bytes, one_kernel_shard_bytes(tuning, ranks)};
}

/// Whether "auto" has every rank of an all-reduce read all inputs.
[[nodiscard]] constexpr bool one_shot_wins(const CollectiveTuning& tuning, int ranks, std::size_t bytes,
                                           bool symmetric) noexcept {
  if (symmetric) return bytes <= tuning.one_shot_symmetric_bytes;
  return ranks <= 2 || bytes <= tuning.one_shot_bytes;
}

/// The largest all-reduce that one kernel does in one step, in which each rank sends everything to all peers; two steps
/// move less, but wait for peers twice. Two ranks send the same amount either way.
[[nodiscard]] constexpr std::size_t one_step_up_to(const CollectiveTuning& tuning, int ranks) noexcept {
  if (ranks <= 2) return SIZE_MAX;
  const auto n = static_cast<std::size_t>(ranks);
  return tuning.one_step_bytes * n / ((n - 1) * (n - 2));
}

/// Above how many bytes one kernel works directly on the symmetric tensors of an all-reduce, if the device has one: for
/// two ranks where mail in one step stops winning, for more where mail would need a second step.
[[nodiscard]] constexpr std::size_t direct_all_reduce_above(const CollectiveTuning& tuning, int ranks) noexcept {
  return std::min(tuning.direct_above_bytes, one_step_up_to(tuning, ranks));
}

/// The bytes that each rank sums in a two-step all-reduce by one kernel, rounded up so that chunks are aligned for
/// vector accesses.
[[nodiscard]] constexpr std::size_t kernel_chunk(std::size_t bytes, int ranks) noexcept {
  const auto n = static_cast<std::size_t>(ranks);
  return ((bytes + n - 1) / n + 15) / 16 * 16;
}

/// Whether "auto" runs an all-gather or reduce-scatter of symmetric tensors through staging memory, like one of plain
/// views. `bytes` is the size of the largest shard.
[[nodiscard]] constexpr bool staged_wins(const CollectiveTuning& tuning, std::size_t bytes) noexcept {
  return bytes <= tuning.staged_bytes;
}

/// The longest message for which mail is fastest between `ranks` ranks, if it is written `copies` times.
[[nodiscard]] constexpr std::size_t longest_letter(const CollectiveTuning& tuning, int ranks, int copies = 1) noexcept {
  const std::size_t letter = ranks == 2 ? tuning.only_letter_bytes : tuning.letter_bytes;
  return std::min(letter, tuning.mailed_bytes / static_cast<std::size_t>(std::max(copies, 1)));
}

/// The size of the largest shard from which on "auto" reads plain views in place, in `rounds` rounds, if ranks can, at
/// this `loan_cost`.
[[nodiscard]] constexpr std::size_t fetched_from(const CollectiveTuning& tuning, int ranks, int rounds,
                                                 double loan_cost) noexcept {
  if (loan_cost <= tuning.cheap_loan) return rounds > 1 ? tuning.fetched_twice_bytes : tuning.fetched_bytes;
  if (ranks > 2) return SIZE_MAX;
  return rounds > 1 ? tuning.dear_fetched_twice_bytes : tuning.dear_fetched_bytes;
}

/// What remains of a broadcast, cut into an endless sequence of shares, after the root has sent `shares` of them, one
/// after the other, to its `readers`, which pass them on to each other. Shares decrease so that all have arrived
/// everywhere at the same time: the earlier one leaves the root, the more time there is to pass it on.
[[nodiscard]] constexpr double left_to_share(int readers, int shares) noexcept {
  double left = 1;
  for (int i = 0; i < shares; ++i) left *= 1 - 1.0 / readers;
  return left;
}

/// Above how many bytes passing on is faster than sending everything to each reader: a rank that passes on waits for
/// the root, and for a signal from each of the others.
[[nodiscard]] constexpr std::size_t passed_on_above(const CostTable& costs, int readers) noexcept {
  if (readers < 2) return SIZE_MAX;
  const double hops = 2.0 * readers * costs.link_latency_seconds;
  const double saved = readers - 1 / (1 - left_to_share(readers, readers));  // times the whole message's time on a link
  return static_cast<std::size_t>(hops * costs.link_bytes_per_second / saved);
}

/// Whether "auto" has a broadcast into symmetric tensors pulled from the root: where copies take cores, the cores of
/// all receivers then copy concurrently.
[[nodiscard]] constexpr bool pull_wins(const CostTable& costs) noexcept { return costs.copies_cost_compute; }

}  // namespace tandem
