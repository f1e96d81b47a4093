// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tandem/base/dtype.hpp"
#include "tandem/base/tensor_view.hpp"
#include "tandem/collective/reduce_scatter.hpp"
#include "tandem/device/buffer.hpp"
#include "tandem/device/event.hpp"
#include "tandem/device/stream.hpp"
#include "tandem/sharded/sharded_spec.hpp"
#include "tandem/team/team.hpp"

#include "collective/side_stream.hpp"
#include "memory/owners.hpp"
#include "sharded/group_layout.hpp"
#include "team/reclaimed.hpp"

namespace tandem {

/// The buffers into which a rank writes its gradients, and the sums of all ranks', on a stream of their own.
class SummedGradients {
 public:
  /// Collective.
  SummedGradients(const Team& team, std::span<const GroupLayout> layouts, DType dtype, int buffers,
                  std::optional<int> sms);

  /// The gradients of the group, in the next buffer: work queued on `stream` from now on may write them, and finds the
  /// elements between them 0.
  [[nodiscard]] std::span<const TensorView> open(int group, StreamRef stream);
  /// Queues the sum of what was opened last, behind the work that is queued on `stream` until now.
  void sum(int group, const TensorView& gradient, const GradientScales& scales, StreamRef stream);
  /// Work queued on `stream` from now on starts behind all sums.
  void rejoin(StreamRef stream) { beside_.rejoin(stream); }
  /// The next step begins with the same buffer as this one did, and waits for nothing that this one queued: it is
  /// ordered behind it in another way, or this one was captured, and a graph may wait only for what it captured.
  void restart() noexcept;
  /// Call when the step was captured, and the capture dropped.
  void forget_dropped() noexcept { beside_.forget(); }

  [[nodiscard]] Owners owners() const;
  [[nodiscard]] std::string describe() const;

 private:
  struct GroupBuffer {
    Reclaimed<Buffer> memory;
    std::vector<std::vector<TensorView>> gradients;  ///< by group
    Event read;                                      ///< its last sum has read it
    bool in_use = false;                             ///< `read` was recorded
  };

  [[nodiscard]] GroupBuffer made() const;

  Team team_;
  DType dtype_;
  std::vector<GroupLayout> layouts_;
  std::vector<GroupBuffer> buffers_;
  std::size_t current_ = 0;    ///< the buffer that was opened last
  Reclaimed<Buffer> scratch_;  ///< sums that are to be scaled, of the longest shard
  ReduceScatter reduce_scatter_;
  SideStream beside_;
};

}  // namespace tandem
