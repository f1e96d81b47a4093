// SPDX-License-Identifier: Apache-2.0
#include "tools/provenance.hpp"

#include <cstdlib>
#include <ctime>
#include <exception>
#include <sstream>

#include "tandem/base/version.hpp"
#include "tandem/collective/plan_cache.hpp"

#include "base/format.hpp"
#include "tools/commit.hpp"

namespace tandem::tools {
namespace {

using Json = nlohmann::ordered_json;

/// The time now, as in "2026-11-30T05:12:44Z".
std::string now() {
  const std::time_t seconds = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[sizeof "2026-11-30T05:12:44Z"];
  return std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts) == 0 ? "" : text;
}

/// A word that a shell leaves as it is.
std::string quoted(const std::string& word) {
  constexpr const char* plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=.,:/@%";
  if (!word.empty() && word.find_first_not_of(plain) == std::string::npos) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

}  // namespace

std::string build() { return *commit() == '\0' ? version() : format("{}, commit {}", version(), commit()); }

std::string compiler() {
#ifdef __clang__
  return "Clang " __clang_version__;
#else
  return "GCC " __VERSION__;
#endif
}

std::string plan_cache(const std::string& path) {
  try {
    const PlanCache cache(path);
    if (cache.path().empty()) return "none: plans run what the cost model chooses";
    const std::string trouble = cache.trouble();
    return trouble.empty() ? format("{}: {} tuned plans and products", cache.path(), cache.size())
                           : format("{} is ignored: {}", cache.path(), trouble);
  } catch (const std::exception& error) {
    return format("cannot be used: {}", error.what());
  }
}

Json environment_rows() {
  Json rows = Json::array();
  std::istringstream table(Env::table());
  for (std::string line; std::getline(table, line);) {
    if (!line.starts_with("| `")) continue;
    std::vector<std::string> cells;
    std::istringstream row(line.substr(2));
    for (std::string cell; std::getline(row, cell, '|');) {
      const std::size_t begin = cell.find_first_not_of(" `");
      if (begin != std::string::npos) cells.push_back(cell.substr(begin, cell.find_last_not_of(" `") + 1 - begin));
    }
    const char* value = std::getenv(cells.at(0).c_str());
    rows.push_back({{"variable", cells[0]},
                    {"value", value == nullptr ? Json() : Json(value)},
                    {"allowed", cells.at(1)},
                    {"default", cells.at(2)},
                    {"meaning", cells.at(3)}});
  }
  return rows;
}

Json provenance(const char* command, Arguments arguments, const Env& env) {
  std::string line = format("tandem {}", command);
  for (const std::string& word : arguments) line += " " + quoted(word);
  Json set = Json::object();
  for (const Json& row : environment_rows()) {
    if (!row["value"].is_null()) set[row["variable"].get<std::string>()] = row["value"];
  }
  return {{"command", line},    {"began", now()},         {"version", version()},
          {"commit", commit()}, {"compiler", compiler()}, {"plan_cache", plan_cache(env.plan_cache)},
          {"environment", set}};
}

}  // namespace tandem::tools
