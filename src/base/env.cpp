// SPDX-License-Identifier: Apache-2.0
#include "tandem/base/env.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <span>
#include <string_view>
#include <unistd.h>
#include <utility>
#include <vector>

#include "tandem/base/error.hpp"

#include "base/env_check.hpp"
#include "base/format.hpp"
#include "base/path_pattern.hpp"

namespace tandem {
namespace {

using Unit = std::pair<std::string_view, double>;

constexpr std::array<Unit, 4> time_units{{{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1.0}}};
constexpr std::array<Unit, 5> timeout_units{{{"", 1.0}, {"ms", 1e-3}, {"s", 1.0}, {"m", 60.0}, {"h", 3600.0}}};
constexpr std::array<Unit, 4> bandwidth_units{{{"B/s", 1.0}, {"KB/s", 1e3}, {"MB/s", 1e6}, {"GB/s", 1e9}}};

/// Parses text such as "12.5ms" with these units; nullopt unless it is a finite, non-negative number and a known unit.
std::optional<double> parse_quantity(std::string_view text, std::span<const Unit> units) {
  double number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || !std::isfinite(number) || number < 0) return std::nullopt;
  const std::string_view suffix(rest, static_cast<std::size_t>(text.data() + text.size() - rest));
  for (const auto& [unit, factor] : units) {
    if (unit == suffix) return number * factor;
  }
  return std::nullopt;
}

[[noreturn]] void refuse(std::string_view variable, std::string_view value, std::string_view allowed) {
  throw InvalidArgument(format("{} is '{}'; allowed: {}", variable, value, allowed));
}

using Refused = std::optional<std::string>;

/// One row of the table: `read` parses the variable's text into Env; `refused` gives, as text, the value that an Env
/// holds for it if that value is not allowed.
struct Variable {
  const char* name;
  const char* allowed;
  const char* standard;
  const char* meaning;
  void (*read)(Env& env, const Variable& self, const std::string& value);
  Refused (*refused)(const Env& env);
};

// The names of each enum's values, in their order.
constexpr std::array<std::string_view, 5> log_levels{"none", "error", "warn", "info", "trace"};
constexpr std::array<std::string_view, 2> run_checks{"none", "runs"};
constexpr std::array<std::string_view, 3> device_choices{"auto", "host", "cuda"};
constexpr std::array<std::string_view, 3> gemm_choices{"auto", "onednn", "builtin"};

template <class Enum>
void read_name(Enum& to, std::span<const std::string_view> names, const Variable& self, const std::string& value) {
  const auto found = std::ranges::find(names, value);
  if (found == names.end()) refuse(self.name, value, self.allowed);
  to = static_cast<Enum>(found - names.begin());
}

/// The value's name; empty if it has none, as only a cast can make one.
template <class Enum> std::string_view name_in(std::span<const std::string_view> names, Enum value) noexcept {
  const auto index = static_cast<std::size_t>(value);
  return index < names.size() ? names[index] : std::string_view();
}

template <class Enum> Refused refused_name(std::span<const std::string_view> names, Enum value) {
  return name_in(names, value).empty() ? Refused(std::to_string(static_cast<int>(value))) : std::nullopt;
}

// Limited because a copy over an emulated link sleeps until its arrival time, and an abort does not end that sleep.
constexpr std::chrono::nanoseconds longest_latency = std::chrono::seconds(60);
constexpr double least_bandwidth = 1e3;

bool is_link(double latency_seconds, double bytes_per_second) noexcept {
  const double longest = std::chrono::duration<double>(longest_latency).count();
  return latency_seconds >= 0 && latency_seconds <= longest && bytes_per_second >= least_bandwidth &&
         std::isfinite(bytes_per_second);
}

/// Parses text such as "20us,1GB/s"; nullopt if it is malformed or out of range.
std::optional<LinkOptions> link_of(const std::string& text) {
  const auto comma = text.find(',');
  const auto latency = parse_quantity(std::string_view(text).substr(0, comma), time_units);
  const auto bandwidth = comma == std::string::npos
                             ? std::nullopt
                             : parse_quantity(std::string_view(text).substr(comma + 1), bandwidth_units);
  if (!latency || !bandwidth || !is_link(*latency, *bandwidth)) return std::nullopt;
  return LinkOptions{std::chrono::nanoseconds(std::llround(*latency * 1e9)), *bandwidth};
}

void read_link(Env& env, const Variable& self, const std::string& value) {
  env.link = link_of(value);
  if (!env.link) refuse(self.name, value, self.allowed);
}

void read_timeout(Env& env, const Variable& self, const std::string& value) {
  const auto seconds = parse_quantity(value, timeout_units);
  // Checked before rounding: the number may be too large for any integer.
  if (!seconds || *seconds < 1e-3 || *seconds > std::chrono::duration<double>(longest_timeout).count()) {
    refuse(self.name, value, self.allowed);
  }
  env.timeout = std::chrono::milliseconds(std::llround(*seconds * 1e3));
}

Refused refused_timeout(const Env& env) {
  const bool allowed = env.timeout >= std::chrono::milliseconds(1) && env.timeout <= longest_timeout;
  return allowed ? std::nullopt : Refused(format("{}ms", env.timeout.count()));
}

void read_gemm_threads(Env& env, const Variable& self, const std::string& value) {
  if (value == "auto") return;
  const auto [rest, error] = std::from_chars(value.data(), value.data() + value.size(), env.gemm_threads);
  const bool whole = error == std::errc{} && rest == value.data() + value.size();
  if (!whole || env.gemm_threads == 0) refuse(self.name, value, self.allowed);
}

Refused refused_gemm_threads(const Env& env) {
  const bool allowed = env.gemm_threads >= 0 && env.gemm_threads <= most_gemm_threads;
  return allowed ? std::nullopt : Refused(std::to_string(env.gemm_threads));
}

Refused refused_link(const Env& env) {
  if (!env.link) return std::nullopt;
  return is_link(*env.link) ? std::nullopt
                            : Refused(format("{}ns,{}B/s", env.link->latency.count(), env.link->bytes_per_second));
}

Refused any_path(const Env&) { return std::nullopt; }

Refused refused_pattern(const std::string& path) {
  return unknown_in_path(path).empty() ? std::nullopt : Refused(path);
}

constexpr std::array<Variable, 10> variables{{
    {"TANDEM_LOG", "none, error, warn, info, trace", "warn",
     "how much is written to the log; trace adds each team, allocation, rendezvous and plan",
     [](Env& env, const Variable& self, const std::string& value) { read_name(env.log, log_levels, self, value); },
     [](const Env& env) { return refused_name(log_levels, env.log); }},
    {"TANDEM_LOG_FILE", "a path in a folder that is there; %h is the host, %p the process, %r the rank, %% a %",
     "stderr", "where the log goes, behind what the file has",
     [](Env& env, const Variable&, const std::string& value) { env.log_file = value; },
     [](const Env& env) { return refused_pattern(env.log_file); }},
    {"TANDEM_TIMEOUT", "a number with ms, s, m or h (none: s), from 1ms to 365 days", "60s",
     "the deadline of each wait", read_timeout, refused_timeout},
    {"TANDEM_CHECK", "none, runs", "none",
     "runs: the ranks compare what each run of a plan is given, before it is queued, and each waits for all to come",
     [](Env& env, const Variable& self, const std::string& value) { read_name(env.check, run_checks, self, value); },
     [](const Env& env) { return refused_name(run_checks, env.check); }},
    {"TANDEM_DEVICE", "auto, host, cuda", "auto", "the device of each rank; auto is cuda where a GPU can be used",
     [](Env& env, const Variable& self, const std::string& value) {
       read_name(env.device, device_choices, self, value);
     },
     [](const Env& env) { return refused_name(device_choices, env.device); }},
    {"TANDEM_LINK", "LATENCY,BANDWIDTH such as 20us,1GB/s; up to 60s, from 1KB/s", "none",
     "the host device's emulated link", read_link, refused_link},
    {"TANDEM_TRACE", "a path in a folder that is there; %h is the host, %p the process, %r the rank, %% a %",
     "no trace", "where a Chrome trace of all ranks is written when their worlds end",
     [](Env& env, const Variable&, const std::string& value) { env.trace = value; },
     [](const Env& env) { return refused_pattern(env.trace); }},
    {"TANDEM_GEMM", "auto, onednn, builtin", "auto", "the host device's matrix product",
     [](Env& env, const Variable& self, const std::string& value) { read_name(env.gemm, gemm_choices, self, value); },
     [](const Env& env) { return refused_name(gemm_choices, env.gemm); }},
    {"TANDEM_GEMM_THREADS", "auto, or from 1 to 1024", "auto",
     "how many threads of a rank share a large product on the host; auto is OMP_NUM_THREADS, or else what the ranks "
     "leave free of the machine's cores",
     read_gemm_threads, refused_gemm_threads},
    {"TANDEM_PLAN_CACHE", "a path, or none", "tandem/plans in $XDG_CACHE_HOME or ~/.cache",
     "where `tandem tune` keeps what it measured, and plans look it up",
     [](Env& env, const Variable&, const std::string& value) { env.plan_cache = value == "none" ? "" : value; },
     any_path},
}};

// What `tandem run` tells its ranks; `Launch` reads these (see tandem/team/launch.hpp).
constexpr std::array<std::string_view, 3> launch_variables{"TANDEM_RANK", "TANDEM_WORLD_SIZE", "TANDEM_JOB"};

// What CMake (CMP0144), environment modules and Spack set for an installed package; Tandem reads none of them.
constexpr std::array<std::string_view, 5> install_variables{"TANDEM_ROOT", "TANDEM_HOME", "TANDEM_DIR", "TANDEM_PREFIX",
                                                            "TANDEM_VERSION"};

/// OMP_NUM_THREADS's value for the outermost level; 0 if unset or malformed, which is for OpenMP to report.
int openmp_threads(const Env::Lookup& lookup) {
  const std::string value = lookup("OMP_NUM_THREADS").value_or("");
  int threads = 0;
  const auto [rest, error] = std::from_chars(value.data(), value.data() + value.size(), threads);
  const bool ends = rest == value.data() + value.size() || *rest == ',';
  return error == std::errc{} && ends && threads > 0 ? std::min(threads, most_gemm_threads) : 0;
}

std::string known_names() {
  std::string names;
  const auto add = [&names](std::string_view name) { names += format("{}{}", names.empty() ? "" : ", ", name); };
  for (const Variable& variable : variables) add(variable.name);
  std::ranges::for_each(launch_variables, add);
  std::ranges::for_each(install_variables, add);
  return names;
}

bool is_known(std::string_view name) {
  for (const Variable& variable : variables) {
    if (name == variable.name) return true;
  }
  const auto same = [name](std::string_view variable) { return name == variable; };
  if (std::ranges::any_of(launch_variables, same) || std::ranges::any_of(install_variables, same)) return true;
  // Reserved for Tandem's own tests and scripts.
  return name.starts_with("TANDEM_TEST_");
}

/// The path in the user's cache folder, as the XDG base directory specification defines it; empty if there is none.
std::string users_plan_cache(const Env::Lookup& lookup) {
  const auto absolute = [&](const char* variable) {
    const std::string path = lookup(variable).value_or("");
    return path.starts_with('/') ? path : "";
  };
  const std::string home = absolute("HOME");
  std::string caches = absolute("XDG_CACHE_HOME");
  if (caches.empty() && !home.empty()) caches = home + "/.cache";
  return caches.empty() ? "" : caches + "/tandem/plans";
}

}  // namespace

std::string_view name(RunCheck check) noexcept { return name_in(run_checks, check); }
std::string_view name(DeviceChoice choice) noexcept { return name_in(device_choices, choice); }
std::string_view name(GemmChoice choice) noexcept { return name_in(gemm_choices, choice); }

LinkOptions parse_link(const std::string& text) {
  if (const std::optional<LinkOptions> link = link_of(text)) return *link;
  throw InvalidArgument(
      format("the link is '{}'; allowed: LATENCY,BANDWIDTH, as in 20us,1GB/s (ns, us, ms or s, up to 60s; B/s, KB/s, "
             "MB/s or GB/s, from 1KB/s)",
             text));
}

std::string to_string(const LinkOptions& link) {
  return format("{}us,{}GB/s", static_cast<double>(link.latency.count()) * 1e-3, link.bytes_per_second * 1e-9);
}

Env Env::from_process() {
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::string_view name = text.substr(0, text.find('='));
    if (name.starts_with("TANDEM_") && !is_known(name)) {
      throw InvalidArgument(
          format("{} is set in the environment, but Tandem knows no such variable; known: {}", name, known_names()));
    }
  }
  return from([](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  });
}

Env Env::from(const Lookup& lookup) {
  Env env;
  env.plan_cache = users_plan_cache(lookup);
  for (const Variable& variable : variables) {
    if (const auto value = lookup(variable.name); value && !value->empty()) {
      variable.read(env, variable, *value);
      if (variable.refused(env)) refuse(variable.name, *value, variable.allowed);
    }
  }
  if (env.gemm_threads == 0) env.gemm_threads = openmp_threads(lookup);
  return env;
}

bool is_link(const LinkOptions& link) noexcept {
  return is_link(std::chrono::duration<double>(link.latency).count(), link.bytes_per_second);
}

void check_env(const Env& env) {
  for (const Variable& variable : variables) {
    if (const Refused value = variable.refused(env)) {
      throw InvalidArgument(
          format("init was given an Env whose {} is '{}'; allowed: {}", variable.name, *value, variable.allowed));
    }
  }
}

std::string Env::table() {
  std::string text = "| variable | allowed | default | meaning |\n|---|---|---|---|\n";
  for (const Variable& variable : variables) {
    text += format("| `{}` | {} | {} | {} |\n", variable.name, variable.allowed, variable.standard, variable.meaning);
  }
  return text;
}

}  // namespace tandem
