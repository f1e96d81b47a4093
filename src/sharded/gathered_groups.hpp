// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "tandem/base/dtype.hpp"
#include "tandem/base/tensor_view.hpp"
#include "tandem/collective/all_gather.hpp"
#include "tandem/device/event.hpp"
#include "tandem/device/stream.hpp"
#include "tandem/memory/symmetric_tensor.hpp"
#include "tandem/team/team.hpp"

#include "collective/side_stream.hpp"
#include "memory/owners.hpp"
#include "sharded/group_layout.hpp"
#include "sharded/residency.hpp"

namespace tandem {

/// The buffers into which groups of parameters are gathered, and the gathers, on a stream of their own.
class GatheredGroups {
 public:
  /// Collective.
  GatheredGroups(const Team& team, std::span<const GroupLayout> layouts, DType dtype, int buffers);

  /// The parameters of the group, in this buffer.
  [[nodiscard]] std::span<const TensorView> parameters(Residency::Placement in) const {
    return buffers_[static_cast<std::size_t>(in.buffer)].parameters[static_cast<std::size_t>(in.group)];
  }
  /// Gathers that are queued from now on start behind the work that is queued on `stream` until now.
  void follow(StreamRef stream) { beside_.follow(stream); }
  /// Queues that a shard is rounded, ahead of the gathers that are queued from now on.
  void round(const TensorView& shard, const TensorView& to);
  /// Queues the gather of the group whose shard this is. Call `follow` before the first one of a step.
  void gather(Residency::Placement into, const TensorView& shard);
  /// Work queued on `stream` from now on sees what was gathered last into this buffer.
  void wait(int buffer, StreamRef stream) const { buffers_[static_cast<std::size_t>(buffer)].gathered.wait(stream); }
  /// Work queued on `stream` from now on starts behind all gathers.
  void rejoin(StreamRef stream) { beside_.rejoin(stream); }

  /// Call when the step was captured, and the capture dropped.
  void forget_dropped() noexcept { beside_.forget(); }

  [[nodiscard]] Owners owners() const;
  [[nodiscard]] std::string describe() const;

 private:
  struct GroupBuffer {
    SymmetricTensor whole;                            ///< as large as the largest group
    std::vector<SymmetricTensor> groups;              ///< each in the same memory
    std::vector<std::vector<TensorView>> parameters;  ///< of each group
    Event gathered;                                   ///< the last gather into it
  };

  [[nodiscard]] static GroupBuffer made(const Team& team, std::span<const GroupLayout> layouts, DType dtype);

  Team team_;
  std::vector<GroupBuffer> buffers_;
  AllGather all_gather_;
  SideStream beside_;
};

}  // namespace tandem
