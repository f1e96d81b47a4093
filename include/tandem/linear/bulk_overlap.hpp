// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "tandem/base/concepts.hpp"
#include "tandem/base/export.hpp"
#include "tandem/device/stream.hpp"
#include "tandem/team/team.hpp"

namespace tandem {

struct BulkOptions {
  std::string algorithm = "auto";  ///< "auto", "beside" or "sequence"
};

/// Overlaps any collectives with any GEMMs: bulk overlap as in Transformer Engine's backward pass, where one tensor is
/// gathered while another is multiplied. The plans of linear layers overlap their own communication; this overlaps what
/// they cannot: gathering the next layer's parameters with this layer's GEMMs, reducing one gradient with the next
/// gradient's GEMM, exchanging tokens with an expert's GEMMs.
///
///   tandem::BulkOverlap bulk{team};
///   bulk(stream, [&](tandem::StreamRef beside) { gather(weights, beside); },
///        [&](tandem::StreamRef s) { layer(x, w, y, s); });
///
/// On CUDA, kernels that sum over ranks need SMs of their own: give their plan some (CollectiveOptions::sms; 24 to 32
/// nearly saturate the links of a Hopper GPU), and make the concurrent GEMMs leave as many free
/// (LinearOptions::leave_sms, GemmSpec::leave_sms; cuBLASLt's SM_COUNT_TARGET for GEMMs of your own). Otherwise one
/// waits for the other, and nothing is hidden. Pure copies need none (CollectiveOptions::sms = 0).
///
/// Use one per call site or one for everything: its only resource of note is a stream.
class TANDEM_API BulkOverlap {
 public:
  /// Local. "auto" is "beside" where copies do not slow computation: on CUDA, and on the host over an emulated link; on
  /// the host without one, copies cost the cores that compute, and it is "sequence". Throws InvalidArgument for an
  /// empty team or an unknown algorithm.
  explicit BulkOverlap(const Team& team, const BulkOptions& options = {});
  BulkOverlap(BulkOverlap&&) noexcept;
  BulkOverlap& operator=(BulkOverlap&&) noexcept;
  ~BulkOverlap();

  /// Calls both functions, which queue work on the stream that they are passed; `communicate` first, so that it is not
  /// queued after the work that hides it. "beside": `communicate` gets a high-priority stream of this object, `compute`
  /// the caller's. Both start after what is queued on `stream` now; what is queued on it later starts after both.
  /// "sequence": both get the caller's stream. The host waits for neither, and both may be captured into a graph.
  ///
  /// Communication follows the rules of its plans: all members of its team run it, in the same order. An exception of
  /// either function is passed on; what was queued until then still runs, and `stream` waits for it.
  void operator()(StreamRef stream, const std::function<void(StreamRef)>& communicate,
                  const std::function<void(StreamRef)>& compute);

  /// The algorithm ("beside" or "sequence"), and why.
  [[nodiscard]] const std::string& describe() const noexcept { return description_; }

 private:
  struct State;
  std::unique_ptr<State> state_;
  std::string description_;
};
static_assert(Owner<BulkOverlap>);

}  // namespace tandem
