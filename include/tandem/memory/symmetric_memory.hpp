// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tandem/base/concepts.hpp"
#include "tandem/base/export.hpp"
#include "tandem/memory/backend.hpp"
#include "tandem/memory/signal_pad.hpp"
#include "tandem/team/team.hpp"

namespace tandem {

struct MemoryOptions {
  std::string backend = "auto";  ///< see open_memory_backend
  std::uint32_t channels = 16;   ///< of the signal pad, 1 to 4096
};

/// A symmetric allocation: every member of a team has one of the same size, and can access all of them after the
/// rendezvous. A handle; copies refer to the same allocation. Destroying the last one is local, waits for no rank, and
/// frees nothing that queued work may still use (see Team::reclaim).
class TANDEM_API SymmetricMemory {
 public:
  SymmetricMemory() = default;

  /// Allocates this rank's part. Local: no other rank is involved yet. On the host it holds a file descriptor for its
  /// lifetime; if they run out, the process's soft limit is raised towards the hard one, which is logged (info).
  /// Throws OutOfMemory, Unsupported, InvalidArgument.
  [[nodiscard]] static SymmetricMemory allocate(const Team& team, std::size_t bytes, const MemoryOptions& options = {});
  /// Uses `bytes` at `data` of an earlier allocation, made by Tandem (perhaps for another team) or, on CUDA, by any
  /// code through the VMM API: by one cuMemCreate on this device, with CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR. Local.
  /// Keeps the allocation alive, but not other code's mapping of it: leave `data` mapped until queued work and graphs
  /// that use it are gone. If that other team has failed, all its members must synchronize their streams before the
  /// rendezvous: its queued work may still write here. Throws Unsupported for memory that cannot be shared,
  /// InvalidArgument for a range that exceeds an allocation of Tandem's, and OutOfMemory.
  [[nodiscard]] static SymmetricMemory wrap(const Team& team, void* data, std::size_t bytes,
                                            const MemoryOptions& options = {});

  explicit operator bool() const noexcept { return state_ != nullptr; }

  /// Collective, once; a second call throws InvalidArgument. Makes the peers' memory accessible and the signal pad
  /// usable. Throws InvalidArgument on every rank, naming two, if bytes, backends or channels differ: the memory is
  /// then unchanged, and another rendezvous may follow. A rank that cannot map a peer's part aborts the team, and
  /// throws the reason. It is also a barrier, since no rank may signal into a pad that its owner has not cleared.
  void rendezvous();
  [[nodiscard]] bool is_reachable() const noexcept;
  /// `is_reachable`, and the memory is of `team`.
  [[nodiscard]] bool is_reachable_on(const Team& team) const noexcept;

  [[nodiscard]] const Team& team() const;
  [[nodiscard]] std::string_view backend() const;
  [[nodiscard]] std::size_t bytes() const;
  [[nodiscard]] std::byte* data() const;

  // Only after the rendezvous (before it they throw InvalidArgument).

  /// A number that no other memory of the team has, equal on all its ranks.
  [[nodiscard]] std::uint64_t id() const;
  /// Where this rank accesses the part of the team's rank `rank`; for the own rank the same as `data`. Throws
  /// InvalidArgument if `rank` is outside [0, team size).
  [[nodiscard]] std::byte* remote(int rank) const;
  /// The table of all ranks' `remote` pointers, the own one included, in device memory.
  [[nodiscard]] void* const* peer_pointers() const;
  /// All ranks' parts in one address range, rank r's at r · contiguous_stride(); addresses between two parts may be
  /// unmapped. Mapped at the first call, which may block. Throws Unsupported, naming a rank and its offset, unless
  /// every rank's part is at the start of its allocation (which `wrap` does not require), and OutOfMemory.
  [[nodiscard]] std::byte* contiguous() const;
  /// Bytes from one rank's part to the next in `contiguous`: the size of the largest rank's allocation; those made by
  /// Tandem include the signal pad, rounded up to the backend's granularity. Equal on every rank.
  [[nodiscard]] std::size_t contiguous_stride() const;
  [[nodiscard]] const SignalPad& signal_pad() const;

 private:
  friend class SymmetricTensor;
  friend std::vector<std::shared_ptr<void>> owners_of(const SymmetricMemory& memory);  // for plans: what it consists of
  class State;
  /// `rendezvous`, where `contents` (a tensor's dtype and sizes as text) must be equal on all ranks as well.
  void rendezvous(std::string_view contents);
  explicit SymmetricMemory(std::shared_ptr<State> state) noexcept : state_(std::move(state)) {}
  [[nodiscard]] State& state() const;
  [[nodiscard]] State& reachable_state() const;

  std::shared_ptr<State> state_;
};
static_assert(Handle<SymmetricMemory>);

}  // namespace tandem
