// SPDX-License-Identifier: Apache-2.0
#include "measurement.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <sched.h>
#include <string>
#include <string_view>

namespace measurement {
namespace {

constexpr std::array<std::string_view, 3> names{"all_reduce", "all_gather", "reduce_scatter"};
constexpr int warm_up = 20;
constexpr int fewest = 10;
constexpr int most = 20'000;
constexpr int most_fresh = 200;  // ranks take half a millisecond or more to agree on the beginning of each

std::string name(Operation operation) { return std::string(names[static_cast<std::size_t>(operation)]); }

[[noreturn]] void refuse(std::string_view option, std::string_view value) {
  std::fprintf(stderr,
               "%.*s %.*s: expected --ranks N, --op all_reduce|all_gather|reduce_scatter, --begin SIZE, --end SIZE "
               "(64, 4K, 1M), "
               "--factor F (2 or more), --seconds S, --data still|fresh or --bind core|none\n",
               static_cast<int>(option.size()), option.data(), static_cast<int>(value.size()), value.data());
  std::exit(2);
}

/// Element i of a rank's input: small whole numbers, so that any order of summation gives the same float.
float element(std::uint64_t seed, int rank, std::size_t i) {
  std::uint64_t x = seed + static_cast<std::uint64_t>(rank) * 0x9e3779b97f4a7c15U + i * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 31)) * 0x94d049bb133111ebU;
  return static_cast<float>(static_cast<std::int64_t>((x >> 40) % 2001) - 1000);
}

class Case {
 public:
  Case(Library& library, Operation operation, std::size_t size)
      : library_(library), operation_(operation), ranks_(static_cast<std::size_t>(library.ranks())) {
    const std::size_t elements = std::max(size / sizeof(float), ranks_);
    count_ = operation == Operation::all_reduce ? elements : elements / ranks_;
    total_ = operation == Operation::all_reduce ? count_ : count_ * ranks_;
  }

  [[nodiscard]] std::size_t bytes() const { return total_ * sizeof(float); }
  [[nodiscard]] std::size_t count() const { return count_; }

  void fill(std::uint64_t seed) {
    for (std::size_t i = 0; i < inputs(); ++i) library_.input()[i] = element(seed, library_.rank(), i);
  }

  /// Makes this rank write every element of its input and read every element of its result.
  void use() {
    float read = 0;
    for (std::size_t i = 0; i < outputs(); ++i) read += library_.output()[i];
    const float sign = std::isnan(read) ? 1.0F : -1.0F;  // keeps the compiler from dropping the reads
    for (std::size_t i = 0; i < inputs(); ++i) library_.input()[i] *= sign;
  }

  [[nodiscard]] double wrong(std::uint64_t seed) {
    const std::size_t first =
        operation_ == Operation::reduce_scatter ? count_ * static_cast<std::size_t>(library_.rank()) : 0;
    double wrong = 0;
    for (std::size_t i = 0; i < outputs(); ++i) {
      float expected = 0;
      if (operation_ == Operation::all_gather) {
        expected = element(seed, static_cast<int>(i / count_), i % count_);
      } else {
        for (int rank = 0; rank < library_.ranks(); ++rank) expected += element(seed, rank, first + i);
      }
      if (library_.output()[i] != expected) ++wrong;
    }
    return wrong;
  }

  /// The bytes that a link carries for each byte of the message: busbw / algbw as nccl-tests defines them.
  [[nodiscard]] double link_share() const {
    const auto n = static_cast<double>(ranks_);
    return (operation_ == Operation::all_reduce ? 2 : 1) * (n - 1) / n;
  }

 private:
  /// The input and output elements of one rank.
  [[nodiscard]] std::size_t inputs() const { return operation_ == Operation::all_gather ? count_ : total_; }
  [[nodiscard]] std::size_t outputs() const { return operation_ == Operation::reduce_scatter ? count_ : total_; }

  Library& library_;
  Operation operation_;
  std::size_t ranks_;
  std::size_t count_ = 0;
  std::size_t total_ = 0;
};

using Clock = std::chrono::steady_clock;  // the same on all processes of a machine

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

double timed(Library& library) {
  const auto begin = Clock::now();
  library.run();
  return seconds_since(begin);
}

double median(std::vector<double>& times) {
  std::ranges::sort(times);
  return times[times.size() / 2];
}

double median_of_iterations(Library& library, std::size_t iterations) {
  std::vector<double> times(iterations);
  for (double& time : times) time = timed(library);
  library.maximum(times);
  return median(times);
}

double mean_of_iterations(Library& library, std::size_t iterations) {
  const auto begin = Clock::now();
  for (std::size_t i = 0; i < iterations; ++i) library.run();
  std::vector<double> mean{seconds_since(begin) / static_cast<double>(iterations)};
  library.maximum(mean);
  return mean[0];
}

/// Returns at a moment that all ranks have agreed on. `ahead`: how long it takes until all of them know it.
Clock::time_point begin_together(Library& library, Clock::duration& ahead) {
  std::vector<double> latest{std::chrono::duration<double>((Clock::now() + ahead).time_since_epoch()).count()};
  library.maximum(latest);
  const Clock::time_point begin(std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(latest[0])));
  if (Clock::now() > begin) ahead *= 2;  // this rank was too late
  while (Clock::now() < begin) ::sched_yield();
  return begin;
}

std::vector<double> times_with_fresh_data(Library& library, Case& problem, std::size_t iterations) {
  Clock::duration ahead = std::chrono::microseconds{500};
  std::vector<double> times(iterations);
  for (double& time : times) {
    problem.use();
    const Clock::time_point begin = begin_together(library, ahead);
    library.run();
    time = seconds_since(begin);
  }
  library.maximum(times);
  return times;
}

void measure(Library& library, Operation operation, std::size_t size, const Options& options) {
  Case problem(library, operation, size);
  library.prepare(operation, problem.count());
  const auto seed = static_cast<std::uint64_t>(std::chrono::system_clock::now().time_since_epoch().count());
  std::vector<double> agreed{library.rank() == 0 ? static_cast<double>(seed >> 20) : 0.0};
  library.maximum(agreed);
  const auto key = static_cast<std::uint64_t>(agreed[0]);

  problem.fill(key);
  library.run();
  double wrong = problem.wrong(key);
  std::vector<double> first(warm_up);
  for (double& time : first) time = timed(library);
  library.maximum(first);
  const double guess = std::max(median(first), 1e-7);
  const auto iterations = static_cast<std::size_t>(
      std::clamp(options.seconds / 2 / guess, 1.0 * fewest, 1.0 * (options.fresh ? most_fresh : most)));
  double time = 0;
  double mean = 0;
  if (options.fresh) {
    std::vector<double> times = times_with_fresh_data(library, problem, iterations);
    time = median(times);
    mean = std::accumulate(times.begin(), times.end(), 0.0) / static_cast<double>(times.size());
  } else {
    time = median_of_iterations(library, iterations);
    mean = mean_of_iterations(library, iterations);
  }

  problem.fill(key + 1);
  library.run();
  wrong += problem.wrong(key + 1);
  std::vector<double> worst{wrong};
  library.maximum(worst);
  if (library.rank() != 0) return;
  const double algbw = static_cast<double>(problem.bytes()) / time * 1e-9;
  std::printf("%s %s %d %zu %zu float %s %.2f %.2f %.3f %.3f %.0f\n", library.name().c_str(), name(operation).c_str(),
              library.ranks(), problem.bytes(), problem.count(), operation == Operation::all_gather ? "none" : "sum",
              time * 1e6, mean * 1e6, algbw, algbw * problem.link_share(), worst[0]);
  std::fflush(stdout);
}

}  // namespace

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; i += 2) {
    const std::string_view option = argv[i];
    const std::string value = i + 1 < argc ? argv[i + 1] : "";
    // `units`: the allowed suffixes, each 1024 times the previous one.
    const auto number = [&](std::string_view units = "") {
      char* end = nullptr;
      double parsed = std::strtod(value.c_str(), &end);
      const std::string_view unit = end;
      const std::size_t at = units.find(unit);
      if (value.empty() || unit.size() > 1 || at == std::string_view::npos || !(parsed > 0)) refuse(option, value);
      if (!unit.empty()) parsed *= std::pow(1024, at + 1);
      return parsed;
    };
    if (option == "--ranks") {
      options.ranks = static_cast<int>(number());
    } else if (option == "--begin") {
      options.begin = static_cast<std::size_t>(number("KMG"));
    } else if (option == "--end") {
      options.end = static_cast<std::size_t>(number("KMG"));
    } else if (option == "--factor" && number() >= 2) {
      options.factor = static_cast<std::size_t>(number());
    } else if (option == "--seconds") {
      options.seconds = number();
    } else if (option == "--data" && (value == "still" || value == "fresh")) {
      options.fresh = value == "fresh";
    } else if (option == "--bind" && (value == "core" || value == "none")) {
      options.bind = value == "core";
    } else if (const auto* at = std::ranges::find(names, value); option == "--op" && at != names.end()) {
      options.operations = {static_cast<Operation>(at - names.begin())};
    } else {
      refuse(option, value);
    }
  }
  return options;
}

void place(const Options& options, int rank) {
  cpu_set_t allowed;
  if (!options.bind || ::sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return;
  int place = rank % CPU_COUNT(&allowed);
  for (std::size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed) || place-- != 0) continue;
    cpu_set_t mine;
    CPU_ZERO(&mine);
    CPU_SET(cpu, &mine);
    ::sched_setaffinity(0, sizeof(mine), &mine);
    return;
  }
}

void measure(Library& library, const Options& options) {
  for (const Operation operation : options.operations) {
    for (std::size_t size = options.begin; size <= options.end; size *= options.factor) {
      measure(library, operation, size, options);
    }
  }
}

}  // namespace measurement
