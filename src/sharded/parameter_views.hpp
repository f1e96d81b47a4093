// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "tandem/base/device_id.hpp"
#include "tandem/base/dtype.hpp"
#include "tandem/base/tensor_view.hpp"

#include "sharded/group_layout.hpp"

namespace tandem {

/// The parameters of a group whose range of elements begins at `memory`.
[[nodiscard]] inline std::vector<TensorView> parameter_views(const GroupLayout& layout, void* memory, DType dtype,
                                                             DeviceId device) {
  std::vector<TensorView> views;
  for (std::size_t i = 0; i < layout.places().size(); ++i) {
    const std::size_t at = static_cast<std::size_t>(layout.places()[i].begin) * size_of(dtype);
    views.emplace_back(static_cast<std::byte*>(memory) + at, layout.sizes()[i], dtype, device);
  }
  return views;
}

}  // namespace tandem
