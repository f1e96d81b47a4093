// SPDX-License-Identifier: Apache-2.0
#include "language_model/adam.hpp"

#include <cstddef>

#include "tandem/device/trace_range.hpp"

namespace tandem::language_model {

Adam::Adam(const Parameters& parameters, const Kernels& kernels) : parameters_(parameters), kernels_(kernels) {
  const auto& device = parameters.team().shared_device();
  for (const ParameterSlab& slab : parameters.slabs()) {
    const std::vector<float> zeros(static_cast<std::size_t>(slab.gradient.numel()), 0.0F);
    for (std::vector<Tensor>* moments : {&means_, &variances_}) {
      const Tensor& moment = moments->emplace_back(device, slab.gradient.sizes(), f32);
      device->upload(moment.view().data(), zeros.data(), zeros.size() * sizeof(float));
    }
  }
}

void Adam::step(float learning_rate, StreamRef stream) {
  const TraceRange range(parameters_.team().device(), stream, "Adam", TraceKind::compute);
  step_.learning_rate = learning_rate;
  ++step_.step;
  for (std::size_t i = 0; i < means_.size(); ++i) {
    const ParameterSlab& slab = parameters_.slabs()[i];
    kernels_.adam(slab.master.view(), slab.gradient, means_[i].view(), variances_[i].view(), step_, stream);
  }
  parameters_.refresh(stream);
}

}  // namespace tandem::language_model
