// SPDX-License-Identifier: Apache-2.0
#define FMT_HEADER_ONLY          // NOLINT(readability-identifier-naming): fmt's name
#define SPDLOG_FMT_EXTERNAL      // NOLINT(readability-identifier-naming): spdlog's name
#define SPDLOG_PREVENT_CHILD_FD  // NOLINT(readability-identifier-naming): spdlog's name
#include "tandem/base/log.hpp"

#include <array>
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
#include "base/path_pattern.hpp"

namespace tandem {
namespace {

constexpr std::array<spdlog::level::level_enum, 5> levels{spdlog::level::off, spdlog::level::err, spdlog::level::warn,
                                                          spdlog::level::info, spdlog::level::trace};

}  // namespace

struct Log::Sink {
  explicit Sink(spdlog::sink_ptr sink) : logger("tandem", std::move(sink)) {}

  spdlog::logger logger;
  std::mutex mutex;
  std::set<std::string> said;  ///< by write_once
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
    try {
      const std::string path = expand_path(file, rank);
      // spdlog would create missing folders, even those of a mistyped path.
      std::error_code error;
      if (const auto folder = std::filesystem::path(path).parent_path();
          !folder.empty() && !std::filesystem::is_directory(folder, error)) {
        throw InvalidArgument(
            format("the log file '{}' could not be opened: there is no folder '{}'", path, folder.string()));
      }
      sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(path);
    } catch (const spdlog::spdlog_ex& error) {
      throw InvalidArgument(format("the log file '{}' could not be opened: {}", expand_path(file, rank), error.what()));
    }
  }
  sink_ = std::make_unique<Sink>(std::move(sink));
  sink_->logger.set_level(spdlog::level::trace);
  sink_->logger.set_pattern(format("[%H:%M:%S.%e] [tandem] [rank {}] [%l] %v", rank));
  sink_->logger.flush_on(spdlog::level::trace);
}

void Log::write(LogLevel level, std::string_view text) const {
  if (!enabled(level) || sink_ == nullptr) return;
  sink_->logger.log(levels[static_cast<std::size_t>(level)], spdlog::string_view_t(text.data(), text.size()));
}

void Log::write_once(LogLevel level, const std::string& text) const {
  if (!enabled(level) || sink_ == nullptr) return;
  {
    const std::lock_guard lock(sink_->mutex);
    if (!sink_->said.insert(text).second) return;
  }
  write(level, text);
}

}  // namespace tandem
