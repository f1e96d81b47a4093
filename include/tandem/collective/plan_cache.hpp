// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tandem/base/export.hpp"
#include "tandem/base/log.hpp"
#include "tandem/device/device.hpp"

namespace tandem {

/// What was measured to be the best way to run a plan, or a product of one rank's.
struct TunedChoice {
  std::string algorithm;  ///< a plan's, or what Gemm::algorithms names
  int groups = 0;         ///< if the algorithm has some; else 0
  double seconds = 0;     ///< a run, when it was measured

  friend bool operator==(const TunedChoice&, const TunedChoice&) = default;
};

/// The file of what `tandem tune` measured (Env::plan_cache): a line of text for each plan or product. Nothing else
/// writes it. A file that is damaged, or is no plan cache, counts as empty, and a line in the log says so.
class TANDEM_API PlanCache {
 public:
  /// Reads nothing yet. An empty path: nothing is ever found, nothing can be kept.
  explicit PlanCache(std::string path) : path_(std::move(path)) {}

  /// The key of a plan: all that decides what is best for it. `arguments` are the plan's own, in words; the device's
  /// model and the versions of Tandem and of the libraries are added.
  [[nodiscard]] static std::string key(std::string_view operation, std::string_view arguments, int ranks,
                                       const Device& device);

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  /// Why the file cannot be read as a plan cache; empty if it can, or if there is none.
  [[nodiscard]] std::string trouble() const;
  /// How many choices the file has.
  [[nodiscard]] std::size_t size() const;
  /// What the file holds under `key` now.
  [[nodiscard]] std::optional<TunedChoice> find(const std::string& key, const Log& log) const;
  /// The same of several keys, in their order, out of one reading.
  [[nodiscard]] std::vector<std::optional<TunedChoice>> find_all(std::span<const std::string> keys,
                                                                 const Log& log) const;
  /// Adds a choice to the file, or replaces the key's, and makes the file and its folder if need be. Readers see the
  /// old file or the new one; of several who keep at once none is lost. Throws InvalidArgument, and changes nothing, if
  /// there is no path, the file there is damaged or something else, or the choice fits no line of it (texts with tabs,
  /// a time that is no number); Error if it cannot be read or written.
  void keep(const std::string& key, const TunedChoice& choice) const;

 private:
  std::string path_;
};

}  // namespace tandem
