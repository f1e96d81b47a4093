// SPDX-License-Identifier: Apache-2.0
#include "tandem/base/env.hpp"

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

#include "base/format.hpp"

namespace tandem {
namespace {

using Unit = std::pair<std::string_view, double>;

constexpr std::array<Unit, 4> time_units{{{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1.0}}};
constexpr std::array<Unit, 5> timeout_units{{{"", 1.0}, {"ms", 1e-3}, {"s", 1.0}, {"m", 60.0}, {"h", 3600.0}}};
constexpr std::array<Unit, 4> bandwidth_units{{{"B/s", 1.0}, {"KB/s", 1e3}, {"MB/s", 1e6}, {"GB/s", 1e9}}};

/// "12.5ms" by the table of units; no value if it is not a finite, non-negative number and a unit of the table.
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

/// One row of the table: the name, what it may be, what it means, and how it gets into Env.
struct Variable {
  const char* name;
  const char* allowed;
  const char* standard;
  const char* meaning;
  void (*read)(Env& env, const Variable& self, const std::string& value);
};

void read_log(Env& env, const Variable& self, const std::string& value) {
  constexpr std::array<std::string_view, 5> levels{"none", "error", "warn", "info", "trace"};
  for (std::size_t i = 0; i < levels.size(); ++i) {
    if (value == levels[i]) {
      env.log = static_cast<LogLevel>(i);
      return;
    }
  }
  refuse(self.name, value, self.allowed);
}

void read_timeout(Env& env, const Variable& self, const std::string& value) {
  const auto seconds = parse_quantity(value, timeout_units);
  if (!seconds || *seconds < 1e-3 || *seconds > 365.0 * 86400.0) refuse(self.name, value, self.allowed);
  env.timeout = std::chrono::milliseconds(std::llround(*seconds * 1e3));
}

void read_device(Env& env, const Variable& self, const std::string& value) {
  if (value != "auto" && value != "host" && value != "cuda") refuse(self.name, value, self.allowed);
  env.device = value;
}

void read_gemm(Env& env, const Variable& self, const std::string& value) {
  if (value != "auto" && value != "onednn" && value != "builtin") refuse(self.name, value, self.allowed);
  env.gemm = value;
}

constexpr std::array<Variable, 7> variables{{
    {"TANDEM_LOG", "none, error, warn, info, trace", "warn", "how much is written to the log", read_log},
    {"TANDEM_LOG_FILE", "a path; %h is the host, %p the process, %r the rank", "stderr", "where the log goes",
     [](Env& env, const Variable&, const std::string& value) { env.log_file = value; }},
    {"TANDEM_TIMEOUT", "a number with ms, s, m or h (none: s), from 1ms to 365 days", "60s",
     "the deadline of each wait", read_timeout},
    {"TANDEM_DEVICE", "auto, host, cuda", "auto", "the device of each rank; auto is cuda where a GPU can be used",
     read_device},
    {"TANDEM_LINK", "LATENCY,BANDWIDTH such as 20us,1GB/s", "none", "the host device's emulated link",
     [](Env& env, const Variable&, const std::string& value) { env.link = parse_link(value); }},
    {"TANDEM_TRACE", "a path; %h is the host, %p the process, %r the rank", "no trace",
     "where a Chrome trace of all ranks is written when their worlds end",
     [](Env& env, const Variable&, const std::string& value) { env.trace = value; }},
    {"TANDEM_GEMM", "auto, onednn, builtin", "auto", "the host device's matrix product", read_gemm},
}};

// What `tandem run` tells its ranks; `Launch` reads these (see tandem/team/launch.hpp).
constexpr std::array<std::string_view, 3> launch_variables{"TANDEM_RANK", "TANDEM_WORLD_SIZE", "TANDEM_JOB"};

std::string known_names() {
  std::string names;
  for (const Variable& variable : variables) names += format("{}{}", names.empty() ? "" : ", ", variable.name);
  return names;
}

bool is_known(std::string_view name) {
  for (const Variable& variable : variables) {
    if (name == variable.name) return true;
  }
  for (const std::string_view variable : launch_variables) {
    if (name == variable) return true;
  }
  // Tandem's tests and scripts have room of their own.
  return name.starts_with("TANDEM_TEST_");
}

}  // namespace

LinkOptions parse_link(const std::string& text) {
  const auto comma = text.find(',');
  const auto latency = parse_quantity(std::string_view(text).substr(0, comma), time_units);
  const auto bandwidth = comma == std::string::npos
                             ? std::nullopt
                             : parse_quantity(std::string_view(text).substr(comma + 1), bandwidth_units);
  if (!latency || !bandwidth || *bandwidth <= 0) {
    throw InvalidArgument(
        format("link '{}' is not LATENCY,BANDWIDTH; an example: 20us,1GB/s (ns, us, ms, s; B/s, KB/s, MB/s, "
               "GB/s)",
               text));
  }
  return {std::chrono::nanoseconds(std::llround(*latency * 1e9)), *bandwidth};
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
  for (const Variable& variable : variables) {
    if (const auto value = lookup(variable.name); value && !value->empty()) variable.read(env, variable, *value);
  }
  return env;
}

std::string Env::table() {
  std::string text = "| variable | allowed | default | meaning |\n|---|---|---|---|\n";
  for (const Variable& variable : variables) {
    text += format("| `{}` | {} | {} | {} |\n", variable.name, variable.allowed, variable.standard, variable.meaning);
  }
  return text;
}

}  // namespace tandem
