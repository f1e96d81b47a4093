// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "tandem/base/export.hpp"
#include "tandem/device/stream.hpp"
#include "tandem/team/team.hpp"

namespace tandem {

struct BulkOptions {
  std::string algorithm = "auto";  ///< "auto", "beside" or "sequence"
};

/// Any collectives beside any products: bulk overlap, as Transformer Engine has it in the backward pass, where one
/// tensor is gathered beside the product of another. The plans of linear layers hide their own communication; this
/// hides what they cannot: the next layer's parameters behind this one's products, a gradient's sum behind the next
/// gradient's product, an exchange of tokens behind an expert's.
///
///   tandem::BulkOverlap bulk{team};
///   bulk(stream, [&](tandem::StreamRef beside) { gather(weights, beside); },
///        [&](tandem::StreamRef stream) { layer(x, w, y, stream); });
///
/// On CUDA, kernels that sum over ranks need multiprocessors of their own: give their plan some
/// (CollectiveOptions::sms; 24 to 32 nearly fill the links of a Hopper GPU), and have the products beside them leave as
/// many (LinearOptions::leave_sms, GemmSpec::leave_sms; cuBLASLt's SM_COUNT_TARGET for one of your own). Without, one
/// of the two waits for the other, and nothing is hidden. What is only copied needs none (CollectiveOptions::sms = 0).
///
/// One for each place in a program, or one for all: it owns a stream, and nothing else that counts.
class TANDEM_API BulkOverlap {
 public:
  /// Local. "auto" is "beside" wherever copies leave the compute alone: on CUDA, and on the host over an emulated link;
  /// elsewhere they cost the cores that compute, and it is "sequence". Throws InvalidArgument for an empty team or an
  /// unknown algorithm.
  explicit BulkOverlap(const Team& team, const BulkOptions& options = {});
  BulkOverlap(BulkOverlap&&) noexcept;
  BulkOverlap& operator=(BulkOverlap&&) noexcept;
  ~BulkOverlap();

  /// Calls both, which queue work on the streams that they are given, communication first: it must not stand behind
  /// what it hides behind. "beside": `communicate` is given a stream of high priority of this object's, `compute` the
  /// caller's. Both begin after what is queued on `stream` now; what is queued on it from now on comes after both.
  /// "sequence": both are given the caller's. Neither waits for the host, and both may be captured into a graph.
  ///
  /// Communication keeps the rules of its plans: all members of its team run it, in the same order. What one of the two
  /// throws is passed on; what was queued until then still runs, and `stream` waits for it.
  void operator()(StreamRef stream, const std::function<void(StreamRef)>& communicate,
                  const std::function<void(StreamRef)>& compute);

  /// Which of the two, and why.
  [[nodiscard]] const std::string& describe() const noexcept { return description_; }

 private:
  struct State;
  std::unique_ptr<State> state_;
  std::string description_;
};

}  // namespace tandem
