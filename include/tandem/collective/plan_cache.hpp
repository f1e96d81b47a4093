// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tandem/base/concepts.hpp"
#include "tandem/base/export.hpp"
#include "tandem/base/log.hpp"
#include "tandem/device/device.hpp"

namespace tandem {

/// The fastest measured way to run a plan, or a GEMM of one rank.
struct TunedChoice {
  std::string algorithm;  ///< a plan's algorithm, or one of Gemm::algorithms
  int groups = 0;         ///< 0 if the algorithm has none
  double seconds = 0;     ///< measured time of one run

  friend bool operator==(const TunedChoice&, const TunedChoice&) = default;
};

/// The file of `tandem tune`'s measurements (Env::plan_cache): one line of text per plan or GEMM. Only `tandem tune`
/// writes it. A file that is damaged or not a plan cache is treated as empty, with a warning in the log.
class TANDEM_API PlanCache {
 public:
  /// Does not read the file yet. With an empty path nothing is ever found, and `keep` throws InvalidArgument.
  explicit PlanCache(std::string path) : path_(std::move(path)) {}

  /// The key of a plan: everything that determines the best choice. `arguments` are the plan's own, as text; the
  /// device's model and the versions of Tandem and of the libraries are added.
  [[nodiscard]] static std::string key(std::string_view operation, std::string_view arguments, int ranks,
                                       const Device& device);

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  /// Why the file cannot be read as a plan cache; empty if it can, or if it does not exist.
  [[nodiscard]] std::string trouble() const;
  /// The number of choices in the file; 0 if it is damaged.
  [[nodiscard]] std::size_t size() const;
  /// The choice that the file currently has for `key`, if any.
  [[nodiscard]] std::optional<TunedChoice> find(const std::string& key, const Log& log) const;
  /// `find` for several keys, in their order, reading the file once.
  [[nodiscard]] std::vector<std::optional<TunedChoice>> find_all(std::span<const std::string> keys,
                                                                 const Log& log) const;
  /// Adds a choice to the file, or replaces that of `key`, creating file and folder if needed. Readers see the old file
  /// or the new one; concurrent writers lose no choice, unless they are on different hosts and the file system's
  /// flock(2) excludes only those of one host. Throws InvalidArgument, and changes nothing, if there is no path, the
  /// existing file is damaged or no plan cache, or the choice cannot be stored as a line (texts that are empty or have
  /// tabs or newlines, a time that is not finite); Error if the file cannot be read or written.
  void keep(const std::string& key, const TunedChoice& choice) const;
  /// Throws what `keep` would throw for the file, whatever the choice, so that nothing is measured in vain. Creates the
  /// folder if needed, but no file.
  void expect_writable() const;

 private:
  std::string path_;
};
static_assert(Handle<PlanCache>);

}  // namespace tandem
