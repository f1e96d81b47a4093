// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tandem/base/export.hpp"
#include "tandem/base/tensor_view.hpp"
#include "tandem/device/event.hpp"
#include "tandem/memory/symmetric_tensor.hpp"
#include "tandem/team/reclaimed.hpp"
#include "tandem/team/team.hpp"

namespace tandem {

/// What every plan has: its team, its name in errors, and its place in the order of streams.
///
/// Making a plan is collective: every member of the team makes the same plans in the same order, and a mismatch is an
/// InvalidArgument that names both sides. All that allocates, registers or may block happens there. On CUDA a linear
/// plan's constructor may also wait until the device has nothing to run (CUDA loads the products' kernels then): let
/// nothing be queued that waits for what a peer does behind the same constructor. Running one is
/// asynchronous on the caller's stream; every member runs it, in the same order relative to the team's other
/// operations. On CUDA, queue the runs of two teams (and launch their graphs) in one order on all ranks that are in
/// both, whatever the streams: streams share connections to the GPU and to its copy engines, graphs do so always, and
/// there a run that waits holds up those behind it. In crossed orders two ranks can wait for each other, until the
/// deadline. Nor have three runs or more of one team pending at once on streams that nothing puts in order: kernels
/// that wait for peers take up to an SM for each block, and two of them fit on a GPU of 128 SMs or more (on smaller
/// ones, one). A run on another stream than the last one starts after that one by itself. What is wrong with a run's
/// arguments, or a stream that is not of the team's device, is an InvalidArgument before anything is queued, and leaves
/// the plan as it was; a run that throws later, for want of memory or since the device refuses, fails the team.
/// Destroying a plan is local and waits for nobody; work that was queued is still right.
///
/// On CUDA a run may be captured into a graph, without an earlier run, on every member alike. The graph is launched on
/// every member, in the same order relative to the team's other operations, and on streams that the caller has put in
/// order with the plan's other runs; these may come in between. The graph keeps what the plan owns; the team, and what
/// was given to the run, must live as long as it is launched. `Team::check` and `synchronize` tell of its failures.
/// While a capture is open, the plans in it run in no other place, and no thread of the process makes a plan, a team or
/// symmetric memory, or ends its world: that may ask the device what it has left to do, which CUDA forbids then. Graphs
/// go before the world; what they still hold at its end stays until the process ends. From a plan's first capture on,
/// also one that was dropped, some plans begin each run with an exchange of signals (see docs/architecture.md).
class TANDEM_API Plan {
 public:
  [[nodiscard]] const Team& team() const noexcept { return team_; }
  /// Which algorithm and engine run, what was chosen and why, and of linear plans what was predicted, in
  /// several lines.
  [[nodiscard]] const std::string& describe() const noexcept { return description_; }

 protected:
  /// Collective: checks that all members make the same plan. `kind` is the operation's name ("AllReduce"), `arguments`
  /// its spec in words; both must be equal on all ranks.
  Plan(const Team& team, std::string kind, std::string arguments);
  ~Plan() = default;
  Plan(Plan&&) = default;
  Plan& operator=(Plan&&) = default;

  [[nodiscard]] Device& device() const noexcept { return *device_; }
  [[nodiscard]] const std::string& kind() const noexcept { return kind_; }
  [[nodiscard]] std::uint32_t operation() const noexcept { return operation_; }
  /// Once; the log has it at level trace.
  void set_description(std::string text);
  /// What captured runs use, and graphs therefore keep: nothing that holds the team.
  void keep_in_graphs(std::vector<std::shared_ptr<void>> resources) {
    resources_ = {team_, std::make_shared<Resources>(std::move(resources))};
  }
  /// Whether any run was captured, this one included. Equal on all ranks.
  [[nodiscard]] bool captured() const noexcept { return last_capture_ != 0; }
  /// The capture that the run that has begun is in; 0: none.
  [[nodiscard]] std::uint64_t capture() const noexcept { return capture_; }
  /// Whether there is one.
  [[nodiscard]] bool capturing() const noexcept { return capture_ != 0; }

  /// Throws InvalidArgument (with the plan, the argument's name, what was given and what is allowed) unless `view` is
  /// dense, of this dtype, on the team's device and aligned as its elements are, and has `elements` elements.
  void expect(const TensorView& view, std::string_view argument, DType dtype, std::int64_t elements) const {
    const bool right = view.dtype() == dtype && view.numel() == elements &&
                       ((view.device() == device_->id() && misaligned(view) == 0) || elements == 0) && view.is_dense();
    if (!right) refuse(view, argument, dtype, elements);
  }
  /// The same, for exactly these sizes.
  void expect(const TensorView& view, std::string_view argument, DType dtype, const Dims& sizes) const;
  /// Throws InvalidArgument where these share memory, as far as that can be seen: of rows that lie apart it cannot.
  /// `or_else` says what else the caller allows.
  void expect_apart(const TensorView& view, std::string_view argument, const TensorView& other,
                    std::string_view other_argument, std::string_view or_else = "") const;
  /// The same of two with as many elements, unless both begin at one address, as where an operation runs in place.
  void expect_same_or_apart(const TensorView& view, std::string_view argument, const TensorView& other,
                            std::string_view other_argument) const {
    const std::size_t bytes = view.bytes();
    if (view.data() == other.data() || lie_apart(view.data(), bytes, other.data(), bytes)) return;
    expect_apart(view, argument, other, other_argument, "both in one place");
  }
  /// Whether so many bytes at one address and at another have none in common.
  [[nodiscard]] static bool lie_apart(const void* one, std::size_t bytes, const void* other,
                                      std::size_t other_bytes) noexcept {
    const auto begin = reinterpret_cast<std::uintptr_t>(one);
    const auto other_begin = reinterpret_cast<std::uintptr_t>(other);
    return begin >= other_begin + other_bytes || other_begin >= begin + bytes;
  }
  /// Throws InvalidArgument unless `tensor` is one that all ranks of this team reach.
  void expect_reachable(const SymmetricTensor& tensor, std::string_view argument) const {
    if (!tensor.memory().is_reachable_on(team_)) refuse_unreachable(tensor, argument);
  }
  /// Collective where TANDEM_CHECK says runs, and else nothing: throws InvalidArgument on every member, naming two,
  /// unless all run this plan, captured or not, and `given()`, in words what they give it, is the same. The last of a
  /// run's checks: who is refused before does not come.
  template <typename Given> void expect_alike(StreamRef stream, const Given& given) const {
    if (compares_runs_) agree_on_run(stream, given());
  }
  /// For that.
  [[nodiscard]] static std::string named(const SymmetricTensor& tensor);
  [[noreturn]] void refuse(const std::string& text) const;

  /// The first and the last thing of a run. `begin` throws if the team has failed, or if the stream is of another
  /// device.
  void begin(StreamRef stream);
  void end(StreamRef stream) { (capturing() ? last_captured_ : last_).record(stream); }
  /// Puts `stream`, another one of the same run, behind where `end` was called last.
  void follow_last(StreamRef stream) const { (capturing() ? last_captured_ : last_).hold(stream); }
  /// What stands between them. If `body` throws, a part of what the peers wait for is queued, and counted, which no
  /// later run could put right: so the team fails, before that is passed on. A capture that throws is never launched,
  /// and leaves the team as it is where it throws on all ranks; where it does on some, later runs of this plan may wait
  /// for each other to the deadline.
  template <typename Body> void whole_or_failed(const Body& body) {
    try {
      body();
    } catch (...) {
      fail_midway();
      throw;
    }
  }

 private:
  using Resources = std::vector<std::shared_ptr<void>>;

  /// Bytes from where an element may lie to where the first one does.
  [[nodiscard]] static std::size_t misaligned(const TensorView& view) noexcept {
    return reinterpret_cast<std::uintptr_t>(view.data()) & (size_of(view.dtype()) - 1);
  }
  [[noreturn]] void refuse(const TensorView& view, std::string_view argument, DType dtype, std::int64_t elements) const;
  [[noreturn]] void refuse_unreachable(const SymmetricTensor& tensor, std::string_view argument) const;
  void agree_on_run(StreamRef stream, const std::string& given) const;
  /// The capture that `stream`, which has to be one of this rank's device, is in; 0: none.
  [[nodiscard]] std::uint64_t capture_of(StreamRef stream) const;
  /// In a handler: fails the team, with what was thrown as the reason.
  void fail_midway() const noexcept;

  Team team_;
  Device* device_;  // the team's
  std::string kind_;
  std::string arguments_;  ///< that it was made with, equal on all ranks
  std::string description_;
  std::uint32_t operation_ = 0;
  std::uint64_t number_ = 0;  ///< among all that the team has made, equal on all ranks
  bool compares_runs_;        ///< with those of the other ranks, before they are queued
  Reclaimed<Resources> resources_;
  Event last_;                      ///< the end of the last run that was not captured
  Event last_captured_;             ///< the end of the last one that was; it means nothing outside of its capture
  std::uint64_t capture_ = 0;       ///< the run's that has begun
  std::uint64_t last_capture_ = 0;  ///< of the last captured run
};

}  // namespace tandem
