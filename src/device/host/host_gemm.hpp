// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tandem/base/env.hpp"
#include "tandem/device/gemm.hpp"

#include "device/host/onednn.hpp"

namespace tandem {

class HostCrew;
class HostWorkers;

/// What a GemmChoice can select (`automatic` selects either).
enum class HostGemmLibrary : std::uint8_t { builtin, onednn };

/// What `choice` selects on this machine. Throws Unsupported for oneDNN if it is not available.
[[nodiscard]] HostGemmLibrary choose_gemm_library(GemmChoice choice);

/// "oneDNN 2.6.3", or "built-in kernels (why)"
[[nodiscard]] std::string describe_gemm_library(HostGemmLibrary library, GemmChoice choice);

/// A library's speed on one core, in f32: typical of this kind of CPU, not measured on this one.
struct HostGemmSpeed {
  double flops_per_second;
  /// Rate at which each further GEMM reads the same weights, if they do not fit in a near cache.
  double weights_bytes_per_second;
  /// GEMMs of up to this many rows share weights packed once, at the rate below; 0: each reads them at the rate above.
  std::int64_t packed_rows = 0;
  double packing_bytes_per_second = 0;
};
[[nodiscard]] HostGemmSpeed gemm_speed(HostGemmLibrary library) noexcept;

/// A GEMM on the host. 16-bit operands are widened in fp32 panels that stay in the cache; sums are kept in fp32 (f64)
/// until the last step, which rounds once. A large GEMM is cut into parts, which the members of a crew do concurrently.
class HostGemm final : public Gemm {
 public:
  /// Runs on streams of the device that owns this crew and these workers.
  HostGemm(const GemmSpec& spec, HostGemmLibrary library, GemmChoice choice, HostCrew& crew,
           const HostWorkers& workers);

  void run(StreamRef stream, const GemmOperands& operands) override;
  [[nodiscard]] std::string describe() const override { return description_; }

  class Work;

 private:
  std::shared_ptr<const Work> work_;  // shared with queued runs, which may outlive this object
  std::string description_;
  const HostWorkers& workers_;
};

}  // namespace tandem
