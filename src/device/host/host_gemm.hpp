// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tandem/device/gemm.hpp"

#include "device/host/onednn.hpp"

namespace tandem {

class HostCrew;
class HostWorkers;

/// The names that DeviceOptions::gemm knows.
enum class HostGemmLibrary : unsigned char { builtin, onednn };

/// What `choice` ("auto", "onednn", "builtin") means on this machine. Throws InvalidArgument for another name,
/// Unsupported if oneDNN was named and is not there.
[[nodiscard]] HostGemmLibrary choose_gemm_library(const std::string& choice);

/// "oneDNN 2.6.3", or "built-in kernels (why)"
[[nodiscard]] std::string describe_gemm_library(HostGemmLibrary library, const std::string& choice);

/// What one core does with it in f32: figures of a kind of CPU, not of this one.
struct HostGemmSpeed {
  double flops_per_second;
  /// What each further product of the same weights costs, if no near cache holds them.
  double weights_bytes_per_second;
  /// Those of fewer rows share weights that are packed once, at this pace; 0: as the rate above says.
  std::int64_t packed_rows = 0;
  double packing_bytes_per_second = 0;
};
[[nodiscard]] HostGemmSpeed gemm_speed(HostGemmLibrary library) noexcept;

/// A product on the host. Operands of 16 bits go through fp32 panels that stay in the cache; sums stay in fp32 (f64)
/// until the last step, which rounds once. A large one is cut into parts, which the members of a crew do side by side.
class HostGemm final : public Gemm {
 public:
  /// Runs on streams of the device whose workers and crew these are.
  HostGemm(const GemmSpec& spec, HostGemmLibrary library, const std::string& choice, HostCrew& crew,
           const HostWorkers& workers);

  void run(StreamRef stream, const GemmOperands& operands) override;
  [[nodiscard]] std::string describe() const override { return description_; }

  class Work;

 private:
  std::shared_ptr<const Work> work_;  // shared with queued runs, so that this object may go before they have run
  std::string description_;
  const HostWorkers& workers_;
};

}  // namespace tandem
