// SPDX-License-Identifier: Apache-2.0
#include "tandem/collective/plan_cache.hpp"

#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "tandem/base/error.hpp"
#include "tandem/base/version.hpp"
#include "tandem/team/file_descriptor.hpp"

#include "base/file_lock.hpp"
#include "base/format.hpp"

namespace tandem {
namespace {

namespace fs = std::filesystem;

// The first line identifies the file and describes the other lines: algorithm, groups, microseconds and key, separated
// by tabs.
constexpr std::string_view first_line = "# tandem plan cache 1: algorithm, groups, time in us, and the plan\n";

struct Content {
  std::map<std::string, TunedChoice, std::less<>> choices;
  std::string trouble;  ///< why the file is not a plan cache; empty if it is, or if there is none
};

/// Cuts off `text` up to and including the next `end`, and returns what precedes it. Does nothing without an `end`.
std::string_view cut(std::string_view& text, char end) {
  const std::size_t length = text.find(end);
  if (length == std::string_view::npos) return {};
  const std::string_view head = text.substr(0, length);
  text.remove_prefix(length + 1);
  return head;
}

template <typename Number> bool parse(std::string_view text, Number& number) {
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && rest == text.data() + text.size();
}

/// False if the line is malformed.
bool add_line(std::string_view line, Content& content) {
  TunedChoice choice;
  choice.algorithm = cut(line, '\t');
  double microseconds = 0;
  const bool whole = !choice.algorithm.empty() && parse(cut(line, '\t'), choice.groups) &&
                     parse(cut(line, '\t'), microseconds) && std::isfinite(microseconds) && !line.empty();
  if (!whole) return false;
  choice.seconds = microseconds * 1e-6;
  content.choices.insert_or_assign(std::string(line), std::move(choice));
  return true;
}

Content content_of(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) return {};
  if (error) return {{}, error.message()};
  if (!fs::is_regular_file(status)) return {{}, "it is no regular file"};
  std::ifstream file(path);
  const std::string whole{std::istreambuf_iterator<char>(file), {}};
  if (!file.is_open() || file.bad()) return {{}, format("it cannot be read: {}", std::strerror(errno))};
  if (whole.empty()) return {};
  if (!whole.starts_with(first_line)) {
    return {{}, format("it does not begin with '{}'", first_line.substr(0, first_line.size() - 1))};
  }
  Content content;
  std::string_view rest = std::string_view(whole).substr(first_line.size());
  for (int number = 2; !rest.empty(); ++number) {
    const std::size_t length = rest.find('\n');
    if (length == std::string_view::npos || !add_line(rest.substr(0, length), content)) {
      return {{}, format("its line {} is no choice, or not all of it", number)};
    }
    rest.remove_prefix(length + 1);
  }
  return content;
}

std::string text_of(const Content& content) {
  std::string text(first_line);
  for (const auto& [key, choice] : content.choices) {
    text += format("{}\t{}\t{:.3f}\t{}\n", choice.algorithm, choice.groups, choice.seconds * 1e6, key);
  }
  return text;
}

[[noreturn]] void refuse_to_write(const fs::path& path, const std::string& why) {
  throw Error(format("the plan cache '{}' could not be written: {}", path.string(), why));
}

/// A text that becomes the file at `path`, or is removed.
class Draft {
 public:
  Draft(fs::path path, const std::string& text) : path_(std::move(path)) {
    // The caller has the folder's lock, but that may exclude only writers of this host, and others use the same pids.
    std::random_device random;
    draft_ = format("{}.{}.{:08x}{:08x}", path_.string(), ::getpid(), random(), random());
    std::ofstream file(draft_, std::ios::trunc);
    file << text << std::flush;
    if (file) return;
    const std::string why = std::strerror(errno);
    remove();
    refuse_to_write(path_, why);
  }
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;
  ~Draft() { remove(); }

  /// Replaces the file atomically: a process that has the old one open keeps reading that.
  void keep() const {
    std::error_code error;
    fs::rename(draft_, path_, error);
    if (error) refuse_to_write(path_, error.message());
  }

 private:
  void remove() const noexcept {
    std::error_code ignored;  // there is none after `keep`
    fs::remove(draft_, ignored);
  }

  fs::path path_;
  fs::path draft_;
};

/// The file that is to be changed: its folder is there, and locked for as long as this lives.
class LockedCache {
 public:
  /// `given` names it in errors.
  explicit LockedCache(const std::string& given)
      : path_(fs::absolute(given)),
        folder_(open_folder(given, path_.parent_path())),
        lock_(folder_.get(), format("the folder of the plan cache '{}'", given)),
        content_(content_of(path_)) {
    if (content_.trouble.empty()) return;
    throw InvalidArgument(
        format("'{}' is not a plan cache: {}; remove it, or name another file", given, content_.trouble));
  }
  [[nodiscard]] Content& content() noexcept { return content_; }
  [[nodiscard]] Draft draft() const { return {path_, text_of(content_)}; }

 private:
  static FileDescriptor open_folder(const std::string& given, const fs::path& folder) {
    std::error_code error;
    fs::create_directories(folder, error);
    // The folder is locked, not the file, which each writer replaces by a new one.
    auto opened = FileDescriptor::from_native_handle(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!opened) {
      throw Error(format("the plan cache '{}': its folder cannot be opened: {}", given, std::strerror(errno)));
    }
    return opened;
  }

  fs::path path_;
  FileDescriptor folder_;
  FileLock lock_;
  Content content_;
};

void expect_path(const std::string& path) {
  if (!path.empty()) return;
  throw InvalidArgument("there is no plan cache to keep a choice in; TANDEM_PLAN_CACHE names one");
}

}  // namespace

std::string PlanCache::key(std::string_view operation, std::string_view arguments, int ranks, const Device& device) {
  return format("{} {}, {} ranks, {}, tandem {}", operation, arguments, ranks, device.model(), version());
}

std::string PlanCache::trouble() const { return path_.empty() ? "" : content_of(path_).trouble; }

std::size_t PlanCache::size() const { return path_.empty() ? 0 : content_of(path_).choices.size(); }

std::optional<TunedChoice> PlanCache::find(const std::string& key, const Log& log) const {
  return find_all(std::span(&key, 1), log).front();
}

std::vector<std::optional<TunedChoice>> PlanCache::find_all(std::span<const std::string> keys, const Log& log) const {
  std::vector<std::optional<TunedChoice>> all(keys.size());
  if (path_.empty() || keys.empty()) return all;
  const Content content = content_of(path_);
  if (!content.trouble.empty()) {
    log.write_once(LogLevel::warn, format("the plan cache '{}' is ignored: {}", path_, content.trouble));
  }
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (const auto found = content.choices.find(keys[i]); found != content.choices.end()) all[i] = found->second;
  }
  return all;
}

void PlanCache::expect_writable() const {
  expect_path(path_);
  const LockedCache locked(path_);
  static_cast<void>(locked.draft());
}

void PlanCache::keep(const std::string& key, const TunedChoice& choice) const {
  expect_path(path_);
  const auto fits_a_line = [](const std::string& text) { return text.find_first_of("\t\n") == std::string::npos; };
  if (key.empty() || choice.algorithm.empty() || !fits_a_line(key) || !fits_a_line(choice.algorithm)) {
    throw InvalidArgument(
        format("the plan cache '{}' was given algorithm '{}' for '{}'; neither may be empty, or have "
               "tabs or more than one line",
               path_, choice.algorithm, key));
  }
  const double microseconds = choice.seconds * 1e6;
  if (!std::isfinite(microseconds)) {  // its line would make the whole file invalid
    throw InvalidArgument(format("the plan cache '{}' was given a time of {} us for '{}'; a number is allowed", path_,
                                 microseconds, key));
  }
  LockedCache locked(path_);
  locked.content().choices.insert_or_assign(key, choice);
  locked.draft().keep();
}

}  // namespace tandem
