// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "tandem/base/export.hpp"
#include "tandem/team/team.hpp"

namespace tandem {

class PlanState;

/// Base of every plan, that is of an operation with everything decided and allocated. It can be moved; what was moved
/// from has an empty team and no description, and any other use of it throws InvalidArgument.
///
/// Creating a plan is collective: every member of the team creates the same plans in the same order, and a mismatch
/// throws InvalidArgument that names both sides. Everything that allocates, registers memory or may block happens
/// there; if that fails, even for lack of memory, the team fails, since other members may already rely on the plan. On
/// CUDA the constructor of a linear or an attention plan may also wait until the device is idle (CUDA loads kernels
/// then): do not have work queued that waits for something a peer does only after the same constructor. Running a plan
/// is asynchronous on the caller's stream; every member runs it, in the same order relative to the team's other
/// operations. On CUDA, queue the runs of two teams (and launch their graphs) in the same order on all ranks that are
/// in both, whatever the streams: streams share connections to the GPU and its copy engines, graphs always do, and
/// there a run that waits blocks those queued after it. In opposite orders two ranks can wait for each other until the
/// deadline. Also avoid three or more runs of one team pending at once on streams that are not ordered: kernels that
/// wait for peers take up to one SM per block, and two runs fit on a GPU of 128 or more SMs (one on smaller GPUs). The
/// kernels of other libraries that wait for peers, such as NCCL's, count as runs in both respects. A run on another
/// stream than the plan's last one starts after that one automatically. Invalid arguments, or a stream of another
/// device, throw InvalidArgument before anything is queued and leave the plan unchanged; a run that throws later (out
/// of memory, device error) fails the team. Destroying a plan is local and does not wait; queued work still completes
/// correctly.
///
/// On CUDA a run may be captured into a graph, in mode global or thread-local, on every member alike, without a prior
/// run. The graph is launched on every member, in the same order relative to the team's other operations, and on
/// streams that the caller has ordered with the plan's other runs, which may be interleaved. The graph keeps alive what
/// the plan owns; the team and the run's arguments must live as long as it is launched. `Team::check` and `synchronize`
/// report its failures. While a capture is open, its plans run nowhere else, and no thread of the process creates a
/// plan, a team or symmetric memory, or ends its world: those may query the device's pending work, which CUDA forbids
/// then. Destroy graphs before the world; what they still hold at its end stays allocated until the process ends. From
/// a plan's first capture on, even a dropped one, some plans begin each run with an exchange of signals (see
/// docs/architecture.md).
class TANDEM_API Plan {
 public:
  [[nodiscard]] const Team& team() const noexcept;
  /// In several lines: which algorithm and engine run, what was chosen and why, and for linear plans the predicted
  /// times.
  [[nodiscard]] const std::string& describe() const noexcept;

 protected:
  explicit Plan(std::unique_ptr<PlanState> state) noexcept;
  Plan(Plan&&) noexcept;
  Plan& operator=(Plan&&) noexcept;
  ~Plan();

  /// The state, of the type that this plan's constructor passed. Throws InvalidArgument if the plan was moved from.
  template <typename State> [[nodiscard]] State& state() { return static_cast<State&>(state_or_throw()); }
  template <typename State> [[nodiscard]] const State& state() const {
    return static_cast<const State&>(state_or_throw());
  }

 private:
  [[nodiscard]] PlanState& state_or_throw() const;

  std::unique_ptr<PlanState> state_;
};

}  // namespace tandem
