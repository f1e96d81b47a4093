// SPDX-License-Identifier: Apache-2.0
#define FMT_HEADER_ONLY          // NOLINT(readability-identifier-naming): fmt's name
#define SPDLOG_FMT_EXTERNAL      // NOLINT(readability-identifier-naming): spdlog's name
#define SPDLOG_PREVENT_CHILD_FD  // NOLINT(readability-identifier-naming): spdlog's name
#include "tandem/base/log.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <mutex>
#include <set>
#include <spdlog/logger.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <system_error>
#include <utility>

#include "tandem/base/error.hpp"

#include "base/format.hpp"
#include "base/log_check.hpp"
#include "base/path_pattern.hpp"
#include "base/writable_file.hpp"

namespace tandem {
namespace {

constexpr std::array<spdlog::level::level_enum, 5> levels{spdlog::level::off, spdlog::level::err, spdlog::level::warn,
                                                          spdlog::level::info, spdlog::level::trace};

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw InvalidArgument(format("the log file '{}' could not be opened: {}", path, why));
}

/// The path that a pattern gives, in a folder that is there: spdlog would create missing folders, even those of a
/// mistyped path.
std::string path_in_a_folder(const std::string& pattern, int rank) {
  std::string path = expand_path(pattern, rank);
  std::error_code error;
  const auto folder = std::filesystem::path(path).parent_path();
  if (!folder.empty() && !std::filesystem::is_directory(folder, error)) {
    refuse(path, format("there is no folder '{}'", folder.string()));
  }
  return path;
}

}  // namespace

struct Log::Sink {
  explicit Sink(spdlog::sink_ptr sink) : logger("tandem", std::move(sink)) {}

  spdlog::logger logger;
  std::mutex mutex;            ///< keeps the lines of a text together, and guards `said`
  std::set<std::string> said;  ///< by write_once
  std::atomic<bool> failed{false};
};

Log::Log() = default;
Log::Log(Log&&) noexcept = default;
Log& Log::operator=(Log&&) noexcept = default;
Log::~Log() = default;

Log::Log(LogLevel level, const std::string& file, int rank) : level_(level) {
  if (level == LogLevel::none) return;
  spdlog::sink_ptr sink;
  if (file.empty()) {
    sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  } else {
    const std::string path = path_in_a_folder(file, rank);
    try {
      sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(path);
    } catch (const spdlog::spdlog_ex& error) {
      refuse(path, error.what());
    }
  }
  sink_ = std::make_unique<Sink>(std::move(sink));
  sink_->logger.set_level(spdlog::level::trace);
  sink_->logger.set_pattern(format("[%H:%M:%S.%e] [tandem] [rank {}] [%l] %v", rank));
  sink_->logger.flush_on(spdlog::level::trace);
  sink_->logger.set_error_handler([sink = sink_.get(), rank](const std::string& why) {
    if (sink->failed.exchange(true)) return;
    std::fputs(format("[tandem] [rank {}] [error] the log lacks lines: {}\n", rank, why).c_str(), stderr);
  });
}

void Log::write(LogLevel level, std::string_view text) const {
  if (!enabled(level) || sink_ == nullptr) return;
  const std::lock_guard lock(sink_->mutex);
  for (bool more = true; more;) {
    const std::string_view line = text.substr(0, text.find('\n'));
    sink_->logger.log(levels[static_cast<std::size_t>(level)], spdlog::string_view_t(line.data(), line.size()));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    more = !text.empty();  // nothing follows the end of the last line
  }
}

void Log::write_once(LogLevel level, const std::string& text) const {
  if (!enabled(level) || sink_ == nullptr) return;
  {
    const std::lock_guard lock(sink_->mutex);
    if (!sink_->said.insert(text).second) return;
  }
  write(level, text);
}

void check_log(LogLevel level, const std::string& file, int rank) {
  if (level == LogLevel::none || file.empty()) return;
  const std::string path = path_in_a_folder(file, rank);
  if (const std::string why = why_not_writable(path, O_WRONLY); !why.empty()) refuse(path, why);
}

}  // namespace tandem
