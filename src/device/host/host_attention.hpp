// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "tandem/device/attention.hpp"

#include "device/host/host_gemm.hpp"

namespace tandem {

class HostCrew;
class HostWorkers;

/// Attention on the host, in blocks of queries and keys that stay in the cache: the online softmax of FlashAttention
/// (Dao et al., arXiv 2205.14135, algorithms 1 and 4), in fp32. The members of a crew share the heads.
class HostAttention final : public Attention {
 public:
  /// Runs on streams of the device that owns this crew and these workers.
  HostAttention(const AttentionSpec& spec, HostGemmLibrary library, GemmChoice choice, HostCrew& crew,
                const HostWorkers& workers);

  void forward(StreamRef stream, const AttentionOperands& operands) override;
  void backward(StreamRef stream, const AttentionGradientOperands& operands) override;
  [[nodiscard]] std::string describe() const override { return description_; }

  class Work;

 private:
  std::shared_ptr<const Work> work_;  // shared with queued runs, which may outlive this object
  std::string description_;
  const HostWorkers& workers_;
};

/// Device::merge, on the calling thread.
void merge_now(const AttentionMerge& merge);

}  // namespace tandem
