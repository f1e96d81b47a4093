// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tandem/base/concepts.hpp"
#include "tandem/base/export.hpp"
#include "tandem/base/log.hpp"
#include "tandem/device/device.hpp"
#include "tandem/team/launch.hpp"
#include "tandem/team/team.hpp"

namespace tandem {

struct InitOptions {
  std::optional<Launch> launch{};    ///< instead of what the launcher's environment says
  std::optional<Env> env{};          ///< instead of this process's environment
  std::optional<DeviceId> device{};  ///< instead of TANDEM_DEVICE and the local rank's GPU
};

/// All ranks of a job, seen from one of them. An object, not a global: ranks may be threads of one process, and
/// a process may call `init` again after its world has ended. It ends when its last copy and its last team are
/// destroyed. A world that was moved from throws InvalidArgument.
///
/// How a rank ends decides what the others see:
///
/// - In order: it first waits for its device, so that it has sent everything, and then tells its peers. What it sent
///   stays valid; waits for more, on the host or on a stream, end at once, with a PeerLost that says so. (Two ranks
///   that end while each has queued a wait for the other wait until the deadline, as do two that share a CUDA context,
///   where the one that ends waits for the other's kernels.)
/// - By an exception that destroys its world: it is lost to the others, as if its process had died. It tells them so
///   and ends the waits that it has queued, and then waits for its device. What else it has queued still runs: memory
///   that the exception frees before (a std::vector's) must not be in use by then, a Buffer's may, which is freed
///   behind queued work.
/// - Without ending its world: it is lost, whatever its process's exit code. `exit` destroys no local variables, and
///   nothing destroys a World that was leaked.
///
/// A process that a rank forks is not a rank: it may destroy its copies, which peers do not notice, but must not use
/// them; plans, collective calls on teams, `Team::set_timeout`, and the host's streams and device throw InvalidArgument
/// there.
class TANDEM_API World {
 public:
  [[nodiscard]] int rank() const;
  [[nodiscard]] int size() const;
  [[nodiscard]] const Launch& launch() const;
  [[nodiscard]] const Env& env() const;
  [[nodiscard]] const Log& log() const;
  [[nodiscard]] Device& device() const;
  [[nodiscard]] const std::shared_ptr<Device>& shared_device() const;

  /// The team of all ranks, in order. Made by `init`; always the same one.
  [[nodiscard]] Team team() const;
  /// `team().team(ranks)`: see Team::team.
  [[nodiscard]] Team team(std::initializer_list<int> ranks) const { return team().team(ranks); }
  [[nodiscard]] Team team(std::span<const int> ranks) const { return team().team(ranks); }

  /// The world ranks that this rank knows to have died or ended their worlds, in ascending order; whoever caught a
  /// PeerLost finds its rank here. Local, and does not wait: others that are gone may not be known yet, and other ranks
  /// may know others. For a team that goes on without them, see Team::shrink.
  [[nodiscard]] std::vector<int> gone() const;

  /// Several lines: launcher, ranks, device, why not a CUDA device, deadline.
  [[nodiscard]] std::string describe() const;

  class State;
  explicit World(std::shared_ptr<State> state) noexcept : state_(std::move(state)) {}

 private:
  [[nodiscard]] const State& state() const;

  std::shared_ptr<State> state_;  // null once moved from
};
static_assert(Handle<World>);

/// Joins the world that the launcher started this process in (`tandem run`, torchrun, mpirun, srun; none: a world of
/// one). Collective over all ranks; waits for them up to TANDEM_TIMEOUT. Throws InvalidArgument for a malformed
/// environment or InitOptions::launch, for world sizes, kinds of devices, TANDEM_LINK or TANDEM_CHECK that differ
/// between ranks (timeouts may), for a rank that another process has while the world is made, or if this process has a
/// world of this rank and job already, Unsupported for ranks on several nodes or for a device that cannot be used (with
/// the reason), Timeout naming the ranks that did not come, PeerLost naming one that died meanwhile. Raises this
/// process's soft limit of open files (RLIMIT_NOFILE) towards its hard limit where the ranks need more, and says so in
/// the log at info.
[[nodiscard]] TANDEM_API World init(const InitOptions& options = {});

}  // namespace tandem
