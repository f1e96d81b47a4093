// SPDX-License-Identifier: Apache-2.0
#include "collective/plan_state.hpp"

#include <exception>
#include <utility>

#include "tandem/base/error.hpp"

#include "base/format.hpp"
#include "team/names.hpp"
#include "team/or_abort.hpp"
#include "team/rethrow.hpp"

namespace tandem {
namespace {

Event event_of(const Team& team, std::string_view what) {
  return or_abort(team, what, [&] { return Event(team.device()); });
}

}  // namespace

PlanState::PlanState(const Team& team, std::string kind, std::string arguments)
    : team_(team),
      device_(&team.device()),
      kind_(std::move(kind)),
      arguments_(format("{} {}", kind_, arguments)),
      description_(arguments_),
      compares_runs_(team.env().check == RunCheck::runs),
      last_(event_of(team, kind_)),
      last_captured_(event_of(team, kind_)) {
  team.collect();
  team.agree(kind_, description_);
  number_ = team.sequence();
  operation_ = team.register_operation(description_);
}

void PlanState::set_description(std::string text) {
  description_ = std::move(text);
  team_.log().write(LogLevel::trace, format("plan {}: {}", number_, description_));
}

void PlanState::refuse_unreachable(const SymmetricTensor& tensor, std::string_view argument) const {
  if (!tensor) refuse(format("{} is a symmetric tensor that was never made", argument));
  if (!(tensor.team() == team_)) {
    refuse(format("{} is a symmetric tensor of team {}; this plan is of team {}", argument, tensor.team().id(),
                  team_.id()));
  }
  refuse(format("{} had no rendezvous; call rendezvous() on all ranks of the team first", argument));
}

void PlanState::agree_on_run(StreamRef stream, const std::string& given) const {
  const bool captured = capture_of(stream) != 0;
  team_.agree(kind_, format("plan {} ({}), {}{}", number_, arguments_, given, captured ? ", captured" : ""));
}

std::string PlanState::named(const SymmetricTensor& tensor) {
  return format("symmetric tensor {}", tensor.memory().id());
}

void PlanState::refuse(const std::string& text) const {
  throw InvalidArgument(format("{} on {}: {}", kind_, name_own_rank(team_), text));
}

void PlanState::refuse(const TensorView& view, std::string_view argument, DType dtype, std::int64_t elements) const {
  if (view.dtype() != dtype) {
    refuse(format("{} is {}; this plan is for {}", argument, to_string(view), name(dtype)));
  }
  if (view.numel() != elements) {
    refuse(format("{} is {}, {} elements; {} are needed", argument, to_string(view), view.numel(), elements));
  }
  if (!(view.device() == device_->id()) && elements != 0) {
    refuse(format("{} is {}; this rank's device is {}", argument, to_string(view), to_string(device_->id())));
  }
  if (misaligned(view) != 0 && elements != 0) {
    refuse(format("{} lies at {}, {} bytes behind an element's place; {} has an alignment of {} bytes", argument,
                  view.data(), misaligned(view), name(dtype), size_of(dtype)));
  }
  refuse(format("{} has sizes {} with strides {}; it must be dense", argument, to_string(view.sizes()),
                to_string(view.strides())));
}

void PlanState::expect(const TensorView& view, std::string_view argument, DType dtype, const Dims& sizes) const {
  if (!(view.sizes() == sizes)) {
    refuse(format("{} is {}; sizes {} are needed", argument, to_string(view), to_string(sizes)));
  }
  expect(view, argument, dtype, sizes.numel());
}

void PlanState::expect_apart(const TensorView& view, std::string_view argument, const TensorView& other,
                             std::string_view other_argument, std::string_view or_else) const {
  const std::size_t bytes = view.bytes();
  const std::size_t other_bytes = other.bytes();
  if (lie_apart(view.data(), bytes, other.data(), other_bytes)) return;
  if (bytes == 0 || other_bytes == 0 || !view.is_dense() || !other.is_dense()) return;
  refuse(format("{}, {} bytes at {}, and {}, {} bytes at {}, share memory; allowed: apart{}{}", argument, bytes,
                view.data(), other_argument, other_bytes, other.data(), or_else.empty() ? "" : ", or ", or_else));
}

std::uint64_t PlanState::capture_of(StreamRef stream) const {
  if (stream.type() != device_->id().type) {
    refuse(format("a {} stream was given; this rank's device is {}", name(stream.type()), to_string(device_->id())));
  }
  bool owned = true;
  const std::uint64_t capture = ask_device(team_, kind_, [&] {
    const std::uint64_t number = device_->stream_capture(stream);
    owned = number != 0 || device_->owns(stream);
    return number;
  });
  if (!owned) {
    refuse(format("a stream of another device was given; this rank's device is {}", to_string(device_->id())));
  }
  return capture;
}

void PlanState::begin(StreamRef stream) {
  team_.check();
  capture_ = capture_of(stream);
  // The peers may have queued their part of this run.
  whole_or_failed([&] {
    if (capture_ == 0) {
      // Even if the handle is the last run's: it may have been reused for a new stream, or name one stream per thread.
      last_.wait(stream);
    } else if (capture_ == last_capture_) {
      last_captured_.wait(stream);
    } else {
      if (resources_) {
        for (const std::shared_ptr<void>& resource : *resources_) team_.hold_in_graph(stream, resource);
      }
      if (device_->trace().enabled()) {
        team_.log().write_once(
            LogLevel::warn,
            "what is captured into a CUDA graph is not in the trace: its launches do not pass through "
            "Tandem; allowed: eager runs, or another profiler, as nsys --cuda-graph-trace=node");
      }
      last_capture_ = capture_;
    }
  });
}

void PlanState::abort_midway() const noexcept {
  try {
    try {
      throw;
    } catch (const std::exception& error) {
      team_.abort(format("a run of {} threw midway: {}", kind_, error.what()));
    } catch (...) {
      team_.abort(format("a run of {} threw midway", kind_));
    }
  } catch (...) {  // no memory for the text
    team_.abort({});
  }
}

void PlanState::fail_midway() const {
  if (!capturing()) abort_midway();
  rethrow_from(team_, kind_);
}

}  // namespace tandem
