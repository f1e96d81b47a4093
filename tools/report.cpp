// SPDX-License-Identifier: Apache-2.0
#include "tools/report.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "tandem/base/error.hpp"

#include "base/format.hpp"
#include "tools/command.hpp"
#include "tools/provenance.hpp"
#include "tools/timing.hpp"

namespace tandem::tools {
namespace {

void print(const std::string& line) {
  std::fputs((line + "\n").c_str(), stdout);
  std::fflush(stdout);
}

}  // namespace

std::string csv_cell(const nlohmann::ordered_json& value) {
  if (value.is_null()) return "";
  if (!value.is_string()) return value.dump();
  auto text = value.get<std::string>();
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

nlohmann::ordered_json microseconds_if_any(double seconds) {
  return seconds > 0 ? nlohmann::ordered_json(seconds * 1e6) : nlohmann::ordered_json();
}

Report::Report(const World& world, const std::string& title, const Options& options)
    : speaks_(world.rank() == 0), table_(!options.csv && options.json != "-"), csv_(options.csv), json_(options.json) {
  std::vector<std::string> devices;
  const Launch& launch = world.launch();
  const PeerInfo& self = world.team().peer(world.rank());
  for (const std::string& line :
       gather_texts(world.team(), format("Rank {:2} Pid {:6} on {:>10} device {} [{}]", world.rank(), self.pid,
                                         self.host, to_string(world.device().id()), world.device().describe()))) {
    devices.push_back(line);
  }
  document_["title"] = title;
  document_["ranks"] = world.size();
  document_["device"] = setting(world);
  document_["launcher"] = launch.launcher;
  document_["devices"] = devices;
  document_["run"] = options.run;
  document_["rows"] = nlohmann::ordered_json::array();
  comment(title);
  comment(format("{} ranks on {}, started by {}", world.size(), setting(world), launch.launcher));
  for (const std::string& device : devices) comment(" " + device);
  comment(format("tandem {}; plan cache: {}", build(), options.run.at("plan_cache").get<std::string>()));
}

void Report::comment(const std::string& text) {
  if (speaks_ && table_) print("# " + text);
}

void Report::measuring(const std::string& what) {
  if (speaks_) show_progress("measuring " + what);
}

void Report::row(const nlohmann::ordered_json& values, const std::string& line) {
  if (!speaks_) return;
  show_progress("");
  if (table_) print(line);
  if (csv_) {
    std::string names;
    std::string cells;
    for (const auto& [name, value] : values.items()) {
      names += format("{}{}", names.empty() ? "" : ",", name);
      cells += format("{}{}", &value == &values.front() ? "" : ",", csv_cell(value));
    }
    if (document_["rows"].empty()) print(names);
    print(cells);
  }
  document_["rows"].push_back(values);
}

void Report::set(const std::string& name, const nlohmann::ordered_json& value) { document_[name] = value; }

void Report::finish() {
  if (!speaks_ || json_.empty()) return;
  write_json(json_, document_);
}

void expect_one_stdout(const Report::Options& options) {
  if (!options.csv || options.json != "-") return;
  throw InvalidArgument("--csv and --json - were given, and both go to stdout; allowed: one of them, or --json FILE");
}

void write_text(const std::string& path, const std::string& text) {
  if (path == "-") {
    if (std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0) {
      throw Error(format("cannot write to stdout: {}", std::strerror(errno)));
    }
    return;
  }
  errno = 0;
  std::ofstream file(path);
  file << text;
  file.close();
  if (!file) throw Error(format("cannot write {}: {}", path, std::strerror(errno)));
}

void write_json(const std::string& path, const nlohmann::ordered_json& document) {
  write_text(path, document.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
}

void expect_apart(std::initializer_list<std::pair<std::string_view, std::string_view>> files) {
  const auto place = [](std::string_view path) { return std::filesystem::absolute(path).lexically_normal(); };
  for (const auto* one = files.begin(); one != files.end(); ++one) {
    for (const auto* other = files.begin(); other != one; ++other) {
      if (one->second.empty() || one->second == "-" || other->second.empty()) continue;
      if (place(one->second) != place(other->second)) continue;
      throw InvalidArgument(
          format("{} and {} are both '{}'; allowed: a file for each", other->first, one->first, one->second));
    }
  }
}

std::string setting(const World& world) {
  std::string device(name(world.device().id().type));
  if (!world.env().link) return device;
  return format("{}, emulated link {}", device, to_string(*world.env().link));
}

void expect_no_trace(const Env& env, std::string_view what) {
  if (env.trace.empty()) return;
  throw InvalidArgument(
      format("TANDEM_TRACE is '{}', but {} keeps the trace of what it draws alone; allowed: one of the two (env -u "
             "TANDEM_TRACE takes away the first)",
             env.trace, what));
}

void write_timeline(const World& world, const std::string& path, const std::string& label) {
  Trace& trace = world.device().trace();
  world.device().trace_collect();
  trace.enable(false);
  const std::vector<std::string> ranks = gather_texts(world.team(), trace.chrome_events(world.rank()));
  trace.clear();
  if (world.rank() == 0) write_text(path, Trace::chrome_document(ranks, label));
}

}  // namespace tandem::tools
