// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "tandem/device/attention.hpp"

#include "device/cuda/context.hpp"

namespace tandem::cuda {

/// Attention of a single query to a single key, of which cuDNN has no gradients. In a window it is what the first query
/// of a rank sees of another's keys.
class SingleAttention final : public Attention {
 public:
  [[nodiscard]] static bool is_for(const AttentionSpec& spec) noexcept { return spec.queries == 1 && spec.keys == 1; }

  SingleAttention(std::shared_ptr<const Context> context, const AttentionSpec& spec);

  void forward(StreamRef stream, const AttentionOperands& operands) override;
  void backward(StreamRef stream, const AttentionGradientOperands& operands) override;
  [[nodiscard]] std::string describe() const override { return "a kernel for a single key"; }

 private:
  std::shared_ptr<const Context> context_;
};

}  // namespace tandem::cuda
