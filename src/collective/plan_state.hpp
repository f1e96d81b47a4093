// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "tandem/base/dims.hpp"
#include "tandem/base/dtype.hpp"
#include "tandem/base/tensor_view.hpp"
#include "tandem/device/device.hpp"
#include "tandem/device/event.hpp"
#include "tandem/device/stream.hpp"
#include "tandem/memory/symmetric_tensor.hpp"
#include "tandem/team/team.hpp"

#include "memory/owners.hpp"
#include "team/reclaimed.hpp"

namespace tandem {

/// What all plans have behind their public class: the team, the name in errors, the checks of arguments, and the
/// ordering of runs across streams.
class PlanState {
 public:
  PlanState(const PlanState&) = delete;
  PlanState& operator=(const PlanState&) = delete;
  virtual ~PlanState() = default;

  [[nodiscard]] const Team& team() const noexcept { return team_; }
  [[nodiscard]] const std::string& describe() const noexcept { return description_; }

 protected:
  /// Collective: checks that all members create the same plan. `kind` is the operation's name ("AllReduce"),
  /// `arguments` its spec as text; both must be equal on all ranks. Throws InvalidArgument if they are not.
  PlanState(const Team& team, std::string kind, std::string arguments);

  [[nodiscard]] Device& device() const noexcept { return *device_; }
  [[nodiscard]] const std::string& kind() const noexcept { return kind_; }
  [[nodiscard]] std::uint32_t operation() const noexcept { return operation_; }
  /// Sets `describe`; called once. Also written to the log at level trace.
  void set_description(std::string text);
  /// Resources that captured runs use, which their graphs keep alive. None may hold the team.
  void keep_in_graphs(Owners resources) { resources_ = {team_, std::make_shared<Owners>(std::move(resources))}; }
  /// Whether any run was captured, including the current one. Equal on all ranks.
  [[nodiscard]] bool captured() const noexcept { return last_capture_ != 0; }
  /// The capture of the current run; 0: it is not captured.
  [[nodiscard]] std::uint64_t capture() const noexcept { return capture_; }
  /// Whether the current run is captured.
  [[nodiscard]] bool capturing() const noexcept { return capture_ != 0; }

  /// Throws InvalidArgument (naming the plan and the argument, what was given and what is allowed) unless `view` is
  /// dense, of this dtype, on the team's device, aligned to its elements, and has `elements` elements.
  void expect(const TensorView& view, std::string_view argument, DType dtype, std::int64_t elements) const {
    const bool right = view.dtype() == dtype && view.numel() == elements &&
                       ((view.device() == device_->id() && misaligned(view) == 0) || elements == 0) && view.is_dense();
    if (!right) refuse(view, argument, dtype, elements);
  }
  /// `expect` for exactly these sizes.
  void expect(const TensorView& view, std::string_view argument, DType dtype, const Dims& sizes) const;
  /// Throws InvalidArgument if the two overlap, as far as that can be detected: not for strided views. `or_else` says
  /// what else the caller allows.
  void expect_apart(const TensorView& view, std::string_view argument, const TensorView& other,
                    std::string_view other_argument, std::string_view or_else = "") const;
  /// `expect_apart` for two views of equal size, which may also begin at the same address (an operation in place).
  void expect_same_or_apart(const TensorView& view, std::string_view argument, const TensorView& other,
                            std::string_view other_argument) const {
    const std::size_t bytes = view.bytes();
    if (view.data() == other.data() || lie_apart(view.data(), bytes, other.data(), bytes)) return;
    expect_apart(view, argument, other, other_argument, "both in one place");
  }
  /// Whether the two ranges of bytes are disjoint.
  [[nodiscard]] static bool lie_apart(const void* one, std::size_t bytes, const void* other,
                                      std::size_t other_bytes) noexcept {
    const auto begin = reinterpret_cast<std::uintptr_t>(one);
    const auto other_begin = reinterpret_cast<std::uintptr_t>(other);
    return begin >= other_begin + other_bytes || other_begin >= begin + bytes;
  }
  /// Throws InvalidArgument unless `tensor` is of this team and had its rendezvous.
  void expect_reachable(const SymmetricTensor& tensor, std::string_view argument) const {
    if (!tensor.memory().is_reachable_on(team_)) refuse_unreachable(tensor, argument);
  }
  /// Collective with TANDEM_CHECK=runs, else a no-op: throws InvalidArgument on every member, naming two of them,
  /// unless all run this plan, all captured or none, with equal `given()` (the run's arguments as text). Must be the
  /// last of a run's checks: a rank whose arguments are rejected earlier does not take part.
  template <typename Given> void expect_alike(StreamRef stream, const Given& given) const {
    if (compares_runs_) agree_on_run(stream, given());
  }
  /// A tensor's name for `expect_alike`.
  [[nodiscard]] static std::string named(const SymmetricTensor& tensor);
  [[noreturn]] void refuse(const std::string& text) const;

  /// The capture that `stream` is in; 0: none. Throws InvalidArgument unless it is a stream of this rank's device; a
  /// device that has failed fails the team.
  [[nodiscard]] std::uint64_t capture_of(StreamRef stream) const;

  /// The first and the last call of a run. `begin` throws if the team has failed, and InvalidArgument if the stream is
  /// of another device or its capture is invalid; if it throws for another reason, the team fails.
  void begin(StreamRef stream);
  void end(StreamRef stream) { (capturing() ? last_captured_ : last_).record(stream); }
  /// Orders `stream`, another stream of the same run, after the last call of `end`.
  void follow_last(StreamRef stream) const { (capturing() ? last_captured_ : last_).wait(stream); }
  /// Runs `body`, all that is between `begin` and `end`. If it throws, part of what the peers wait for may have been
  /// queued and counted, and the rest is not, which no later run could repair: the team fails, and the exception is
  /// rethrown. A capture that throws is never launched, and does not fail the team; if it throws on some ranks only,
  /// later runs of this plan may wait for each other until the deadline.
  template <typename Body> void whole_or_failed(const Body& body) {
    try {
      body();
    } catch (...) {
      fail_midway();
    }
  }

 private:
  /// Bytes by which the first element is misaligned; 0: it is aligned.
  [[nodiscard]] static std::size_t misaligned(const TensorView& view) noexcept {
    return reinterpret_cast<std::uintptr_t>(view.data()) & (size_of(view.dtype()) - 1);
  }
  [[noreturn]] void refuse(const TensorView& view, std::string_view argument, DType dtype, std::int64_t elements) const;
  [[noreturn]] void refuse_unreachable(const SymmetricTensor& tensor, std::string_view argument) const;
  void agree_on_run(StreamRef stream, const std::string& given) const;
  /// Called in a catch handler: fails the team, with the caught exception as the reason, and rethrows that.
  [[noreturn]] void fail_midway() const;
  /// The first half of `fail_midway`: only fails the team.
  void abort_midway() const noexcept;

  Team team_;
  Device* device_;  // the team's
  std::string kind_;
  std::string arguments_;  ///< that it was created with, equal on all ranks
  std::string description_;
  std::uint32_t operation_ = 0;
  std::uint64_t number_ = 0;  ///< sequence number within the team, equal on all ranks
  bool compares_runs_;        ///< with those of the other ranks, before they are queued
  Reclaimed<Owners> resources_;
  Event last_;                      ///< the end of the last run that was not captured
  Event last_captured_;             ///< the end of the last captured run; meaningless outside its capture
  std::uint64_t capture_ = 0;       ///< of the current run; 0: none
  std::uint64_t last_capture_ = 0;  ///< of the last captured run
};

}  // namespace tandem
