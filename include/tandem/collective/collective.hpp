// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "tandem/base/dtype.hpp"
#include "tandem/base/export.hpp"
#include "tandem/collective/plan.hpp"
#include "tandem/collective/shard.hpp"  // IWYU pragma: export

namespace tandem {

class CollectiveState;

/// How a collective runs, overriding its own choices. Equal on all ranks.
struct CollectiveOptions {
  std::string algorithm = "auto";  ///< "auto", or one that the plan's `algorithms` lists
  /// Whether plain views are allowed where peers read or write: those need staging memory, which the plan then owns. If
  /// false, such tensors must be symmetric; plain views are allowed only where the run itself copies from or into them.
  bool staging = true;
  /// Bytes of one piece in staging memory, up to 2^48; 0: the value that was fastest on this kind of device.
  std::size_t piece_bytes = 0;
  /// CUDA: the most SMs that the plan's kernels may use; nullopt: as many as was fastest. If set, copies are left to
  /// copy engines (where the stream takes no batch, see Device::copy_batch: only those to other GPUs). With 0 the only
  /// kernels are one-block ones that signal and wait; sums need 1. Kernels concurrent with a GEMM find free SMs only if
  /// it leaves them (GemmSpec::leave_sms, LinearOptions::leave_sms). No effect on the host.
  std::optional<int> sms{};
  /// Whether plain views may be strided in the first dimension (each row dense). Only all_gather, all_to_all and
  /// broadcast support it, and then use only copies of rows: no "one_kernel", "direct_kernel", "mail" or "fetch". Of
  /// strided views, only those that begin in each other's place are checked for overlap.
  bool strided = false;
};

/// Which of a run's tensors are symmetric; if both are: symmetric_output. all_gather and broadcast depend on the output
/// only, so for them symmetric_input is the same as plain; reduce_scatter depends on the input only, so for it
/// symmetric_output (both) is the same as symmetric_input.
enum class Tensors : std::uint8_t { plain, symmetric_input, symmetric_output };

/// Base of the five collectives. Each is a plan for runs of up to a given count; a run's count (equal on all ranks) is
/// taken from its tensors. Plain views are dense (but see CollectiveOptions::strided), of the plan's dtype, on the
/// team's device, and aligned to at least one element. Symmetric tensors belong to the plan's team and have had their
/// rendezvous. Only with TANDEM_CHECK=runs are counts, roots and symmetric tensors compared between ranks; without it a
/// mismatch gives wrong results or a run that fails at its deadline. A count of 0 does nothing.
///
/// The constructors throw InvalidArgument for an invalid spec or options (such as an algorithm that needs staging,
/// without it), Unsupported for an algorithm that the device or system lacks, also for this number of ranks, and for
/// sums over more than 64; and, while memory and peers are set up, OutOfMemory, DeviceError, Timeout, PeerLost or
/// Aborted.
///
/// Plain views are private to their process. On the host a peer may still read them, in one copy, where Linux permits
/// it (process_vm_readv(2): same user, and no Yama, seccomp or container restriction between the ranks); a plan tries
/// this when it is created, and `describe` says what prevents it. Memory that no other process can read (a device's
/// registers) makes the run fail with Aborted; use an algorithm other than "fetch" for it.
///
/// A run's result is complete when the stream has passed the run. Later work on the stream may then overwrite all of
/// the run's tensors, the input too, without further synchronization. So several plans may share a tensor, on one
/// stream or on streams that the caller has ordered. Plans and symmetric tensors may be destroyed once a run is queued
/// (if captured, once its graph is no longer launched, see Plan): the run keeps alive what it uses of them. Of a plain
/// view it keeps only the address: that memory must stay valid until the stream has passed the run.
class TANDEM_API Collective : public Plan {
 public:
  [[nodiscard]] DType dtype() const;

 protected:
  explicit Collective(std::unique_ptr<CollectiveState> state) noexcept;
  Collective(Collective&&) noexcept = default;
  Collective& operator=(Collective&&) noexcept = default;
  ~Collective() = default;
};

}  // namespace tandem
