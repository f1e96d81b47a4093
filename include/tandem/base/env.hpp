// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "tandem/base/export.hpp"

namespace tandem {

/// How much Tandem writes to its log; each level includes those before it. `trace` adds every team, symmetric
/// allocation and rendezvous, and each plan's describe().
enum class LogLevel : std::uint8_t { none, error, warn, info, trace };

/// `runs`: the ranks compare what each run of a plan is given, before it is queued, and each waits for all to come.
enum class RunCheck : std::uint8_t { none, runs };

/// The device of each rank; `automatic` is cuda where a GPU can be used.
enum class DeviceChoice : std::uint8_t { automatic, host, cuda };

/// The host device's GEMM; `automatic` is oneDNN where it can be loaded.
enum class GemmChoice : std::uint8_t { automatic, onednn, builtin };

/// As in the environment: `automatic` is "auto".
[[nodiscard]] TANDEM_API std::string_view name(RunCheck check) noexcept;
[[nodiscard]] TANDEM_API std::string_view name(DeviceChoice choice) noexcept;
[[nodiscard]] TANDEM_API std::string_view name(GemmChoice choice) noexcept;

/// The emulated link of the host device: each copy to or from a peer takes at least `latency + bytes / bandwidth`.
struct LinkOptions {
  std::chrono::nanoseconds latency{0};
  double bytes_per_second = 0;

  friend bool operator==(const LinkOptions&, const LinkOptions&) = default;
};

/// "LATENCY,BANDWIDTH", as in "20us,1GB/s" (units: ns, us, ms, s; B/s, KB/s, MB/s, GB/s). Throws InvalidArgument for
/// any other text, a latency above 60 s, or a bandwidth below 1 KB/s.
[[nodiscard]] TANDEM_API LinkOptions parse_link(const std::string& text);
/// In the format that parse_link accepts.
[[nodiscard]] TANDEM_API std::string to_string(const LinkOptions& link);

/// Everything that Tandem reads from the environment; read once, not updated later. For a malformed value, or an
/// unknown variable whose name begins with TANDEM_, InvalidArgument is thrown and says what is allowed. Variables that
/// a launcher sets (ranks and job names) are read by `Launch`, not here.
struct TANDEM_API Env {
  LogLevel log = LogLevel::warn;  ///< TANDEM_LOG: none, error, warn, info or trace
  std::string log_file{};         ///< TANDEM_LOG_FILE: a path, %h host, %p pid, %r rank, %% %; empty: stderr
  std::chrono::milliseconds timeout{60'000};  ///< TANDEM_TIMEOUT: limit of each wait: "60", "250ms", "10s", "5m", "2h"
  RunCheck check{};                           ///< TANDEM_CHECK: none or runs
  DeviceChoice device{};                      ///< TANDEM_DEVICE: auto, host or cuda
  std::optional<LinkOptions> link{};          ///< TANDEM_LINK: the host device's emulated link
  std::string trace{};                        ///< TANDEM_TRACE: Chrome trace's path (%h, %p, %r, %% as above), or none
  GemmChoice gemm{};                          ///< TANDEM_GEMM: auto, onednn or builtin: the host's GEMM
  int gemm_threads = 0;                       ///< TANDEM_GEMM_THREADS: threads of one GEMM on the host; 0: auto
  std::string plan_cache{};                   ///< TANDEM_PLAN_CACHE: path of `tandem tune`'s results; empty: none

  using Lookup = std::function<std::optional<std::string>(const std::string&)>;

  /// Reads this process's environment. Throws InvalidArgument.
  [[nodiscard]] static Env from_process();
  /// Reads the variables through `lookup` instead (for tests); does not check for unknown names.
  [[nodiscard]] static Env from(const Lookup& lookup);
  /// The Markdown table of all variables, as in docs/environment.md.
  [[nodiscard]] static std::string table();
};

}  // namespace tandem
