// SPDX-License-Identifier: Apache-2.0
// Arguments that the rows pass to the library.
#pragma once

#include <functional>
#include <vector>

#include "tandem/base/dims.hpp"
#include "tandem/base/dtype.hpp"
#include "tandem/base/tensor_view.hpp"
#include "tandem/device/stream.hpp"
#include "tandem/team/world.hpp"

#include "wrong_use/rows.hpp"

namespace tandem::wrong_use {

inline std::vector<float>& memory() {
  static std::vector<float> floats(4096);
  return floats;
}
inline TensorView view(const Dims& sizes, DType dtype = f32) { return {memory().data(), sizes, dtype}; }
inline Stream stream_of(const World& world) { return Stream(world.device()); }

inline Wrong alone(const std::function<void()>& wrong) { return wrong; }

}  // namespace tandem::wrong_use
