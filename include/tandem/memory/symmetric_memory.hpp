// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tandem/base/export.hpp"
#include "tandem/memory/backend.hpp"
#include "tandem/memory/signal_pad.hpp"
#include "tandem/team/team.hpp"

namespace tandem {

struct MemoryOptions {
  std::string backend = "auto";  ///< see open_memory_backend
  std::uint32_t channels = 16;   ///< of the signal pad, 1 to 4096
};

/// A symmetric allocation: every member of a team holds one of the same size, and after the rendezvous reaches all of
/// them. A handle; copies are the same allocation. Dropping the last one is local, waits for nobody, and frees nothing
/// that queued work may still use (see Team::reclaim).
class TANDEM_API SymmetricMemory {
 public:
  SymmetricMemory() = default;

  /// Allocates this rank's part. Local: no other rank is involved yet. On the host it holds a file descriptor for its
  /// life; where they run out, the process's soft limit is raised towards the hard one, and the log says so (info).
  /// Throws OutOfMemory, Unsupported, InvalidArgument.
  [[nodiscard]] static SymmetricMemory allocate(const Team& team, std::size_t bytes, const MemoryOptions& options = {});
  /// Uses `bytes` at `data` of an allocation made earlier, by Tandem (for another team, perhaps) or on CUDA by anybody
  /// through VMM. Local. The memory is kept alive. If that other team has failed, all its members wait for their
  /// streams before the rendezvous: what they had queued for it may still write here. Throws Unsupported for memory
  /// that cannot be shared, and InvalidArgument for more than an allocation of Tandem's has from there on.
  [[nodiscard]] static SymmetricMemory wrap(const Team& team, void* data, std::size_t bytes,
                                            const MemoryOptions& options = {});

  explicit operator bool() const noexcept { return state_ != nullptr; }

  /// Collective, once; a second call is an InvalidArgument. Makes the peers' memory reachable and the signal pad
  /// usable. Throws InvalidArgument on every rank, naming two, where bytes, backends or channels differ: the memory is
  /// then as before, and another rendezvous may follow. A rank that cannot map a peer's part aborts the team, and
  /// throws why. It is a barrier, since no rank may signal into a pad that its owner has not cleared.
  void rendezvous();
  [[nodiscard]] bool is_reachable() const noexcept;
  /// The same, for memory of this team.
  [[nodiscard]] bool is_reachable_on(const Team& team) const noexcept;

  [[nodiscard]] const Team& team() const;
  [[nodiscard]] std::string_view backend() const;
  [[nodiscard]] std::size_t bytes() const;
  [[nodiscard]] std::byte* data() const;

  // After the rendezvous (before it: InvalidArgument).

  /// A number that no other memory of the team has, equal on all its ranks.
  [[nodiscard]] std::uint64_t id() const;
  /// Where this rank reaches the team's rank `rank`; for the own rank the same as `data`. Throws InvalidArgument
  /// outside of [0, team size).
  [[nodiscard]] std::byte* remote(int rank) const;
  /// The table of all `remote` pointers, the own one included, in the device's memory.
  [[nodiscard]] void* const* peer_pointers() const;
  /// All ranks' parts in one address range, rank r's at r · contiguous_stride(); between two parts there may be
  /// addresses without memory. Made at the first call, which may block. Throws Unsupported, naming a rank and its
  /// offset, unless every rank's part begins where its allocation does (`wrap` takes others too), and OutOfMemory.
  [[nodiscard]] std::byte* contiguous() const;
  /// Bytes from one rank's part to the next in `contiguous`: the largest of the ranks' allocations, with the signal pad
  /// and rounded up to the backend's granularity where Tandem made them. The same on every rank.
  [[nodiscard]] std::size_t contiguous_stride() const;
  [[nodiscard]] const SignalPad& signal_pad() const;
  /// What it consists of, here and at the peers, for who must keep that longer: nothing that holds the team. Without
  /// the table of `peer_pointers` and the range of `contiguous`.
  [[nodiscard]] std::vector<std::shared_ptr<void>> parts() const;

 private:
  friend class SymmetricTensor;
  class State;
  /// The same, of memory whose contents (a tensor's dtype and sizes, in words) must be equal on all ranks, too.
  void rendezvous(std::string_view contents);
  explicit SymmetricMemory(std::shared_ptr<State> state) noexcept : state_(std::move(state)) {}
  [[nodiscard]] State& state() const;
  [[nodiscard]] State& reachable_state() const;

  std::shared_ptr<State> state_;
};

}  // namespace tandem
