// SPDX-License-Identifier: Apache-2.0
#include "support/devices.hpp"

#include <array>
#include <map>
#include <sys/wait.h>
#include <unistd.h>

#include "tandem/device/device.hpp"

namespace tandem::testing {
namespace {

/// What `why_not` returns in a child process.
std::string ask_in_child(DeviceType type, const std::function<std::string()>& why_not) {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) return "pipe failed";
  const pid_t child = ::fork();
  if (child == 0) {
    const std::string reason = why_not();
    const bool told = ::write(ends[1], reason.data(), reason.size()) == static_cast<ssize_t>(reason.size());
    ::_exit(told ? 0 : 1);
  }
  ::close(ends[1]);
  std::string reason;
  std::array<char, 512> part{};
  for (ssize_t got = 0; (got = ::read(ends[0], part.data(), part.size())) > 0;) {
    reason.append(part.data(), static_cast<std::size_t>(got));
  }
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return reason;
  ADD_FAILURE() << "asking for a device of type " << name(type) << " ended a process";
  return "asking for the device ended a process";
}

}  // namespace

std::string why_no_ranks_on(DeviceType type) {
  static std::map<DeviceType, std::string> answers;
  const auto at = answers.find(type);
  if (at != answers.end()) return at->second;
  return answers[type] = type == DeviceType::host ? "" : ask_in_child(type, [type] { return why_no_device(type); });
}

std::string why_no_attention_on(DeviceType type) {
  static std::map<DeviceType, std::string> answers;
  const auto at = answers.find(type);
  if (at != answers.end()) return at->second;
  const std::string no_ranks = why_no_ranks_on(type);
  if (!no_ranks.empty() || type == DeviceType::host) return answers[type] = no_ranks;
  return answers[type] = ask_in_child(type, [type] { return open_device({type, 0})->why_no_attention(); });
}

}  // namespace tandem::testing
