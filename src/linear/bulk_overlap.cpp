// SPDX-License-Identifier: Apache-2.0
#include "tandem/linear/bulk_overlap.hpp"

#include "tandem/base/error.hpp"
#include "tandem/device/device.hpp"

#include "base/format.hpp"
#include "collective/side_stream.hpp"
#include "linear/algorithms.hpp"
#include "team/names.hpp"

namespace tandem {
namespace {

constexpr std::string_view beside = "beside";

}  // namespace

struct BulkOverlap::State {
  explicit State(const Team& its_team) : team(its_team), communication(team.device()) {}

  Team team;
  SideStream communication;
  bool is_beside = false;
};

BulkOverlap::BulkOverlap(const Team& team, const BulkOptions& options) {
  if (!team) throw InvalidArgument("BulkOverlap: this rank is not a member of the team that was given");
  const std::string& asked = options.algorithm;
  if (asked != "auto" && asked != beside && asked != sequence) {
    throw InvalidArgument(format("BulkOverlap on {}: no algorithm '{}'; known: auto, {}, {}", name_own_rank(team),
                                 asked, beside, sequence));
  }
  state_ = std::make_unique<State>(team);
  const bool hides = !team.device().costs().copies_cost_compute;
  state_->is_beside = asked == beside || (asked == "auto" && hides);
  description_ = format("BulkOverlap on {} rank{}\nalgorithm: {} ({})", team.size(), team.size() == 1 ? "" : "s",
                        state_->is_beside ? beside : sequence,
                        asked != "auto" ? "asked for"
                        : hides         ? "copies leave the compute alone"
                                        : "copies cost the cores that compute: there is nothing to hide behind");
  team.log().write(LogLevel::trace, description_);
}

BulkOverlap::BulkOverlap(BulkOverlap&&) noexcept = default;
BulkOverlap& BulkOverlap::operator=(BulkOverlap&&) noexcept = default;
BulkOverlap::~BulkOverlap() = default;

void BulkOverlap::operator()(StreamRef stream, const std::function<void(StreamRef)>& communicate,
                             const std::function<void(StreamRef)>& compute) {
  if (state_ == nullptr) throw InvalidArgument("a BulkOverlap that was moved from was run");
  if (!communicate || !compute) {
    throw InvalidArgument(format("BulkOverlap on {}: no function was given to {}", name_own_rank(state_->team),
                                 !communicate ? "communicate" : "compute"));
  }
  Device& device = state_->team.device();
  if (stream.type() != device.id().type) {
    throw InvalidArgument(format("BulkOverlap on {}: a {} stream was given; this rank's device is {}",
                                 name_own_rank(state_->team), name(stream.type()), to_string(device.id())));
  }
  if (!state_->is_beside) {
    communicate(stream);
    compute(stream);
    return;
  }
  SideStream& communication = state_->communication;
  communication.follow(stream);
  rejoin_if_thrown(communication, stream, [&] {
    communicate(communication.ref());
    device.flush(communication.ref());
    device.yield(stream);  // peers wait for each other's communication: all of it starts before any computation
    compute(stream);
  });
  communication.rejoin(stream);
}

}  // namespace tandem
