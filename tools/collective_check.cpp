// SPDX-License-Identifier: Apache-2.0
#include "tools/collective_check.hpp"

#include <cstring>
#include <optional>
#include <type_traits>

#include "tandem/base/scalar.hpp"

#include "support/oracle.hpp"
#include "tools/bench.hpp"
#include "tools/corruption.hpp"

namespace tandem::tools {
namespace {

/// Whole numbers below this: sums of 64 of them stay below 2^8, and so are exact in every dtype.
constexpr int small_numbers = 4;
int small_number(std::uint64_t key, std::int64_t index) {
  return static_cast<int>(testing::random_bits(key, static_cast<std::uint64_t>(index)) % small_numbers);
}

template <typename Body> auto with_type(DType dtype, const Body& body) {
  switch (dtype) {
    case DType::f16: return body(Half{});
    case DType::bf16: return body(BFloat16{});
    case DType::f64: return body(double{});
    case DType::i32: return body(std::int32_t{});
    case DType::i64: return body(std::int64_t{});
    default: return body(float{});
  }
}

template <typename T> T exactly(int value) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    return T(static_cast<float>(value));
  } else {
    return static_cast<T>(value);
  }
}

/// The type in which sums of T are accumulated; unsigned for integers, so that they wrap.
template <typename T> struct Wide {
  using Type = std::conditional_t<std::is_same_v<T, double>, double, float>;
};
template <std::integral T> struct Wide<T> {
  using Type = std::make_unsigned_t<T>;
};

/// A sequence of runs of a sum. Each run after the first has the previous result as an input: in place of the input
/// with key `replaced`, or, if there is none, of all ranks' inputs.
struct Runs {
  int count = 1;
  std::optional<std::uint64_t> replaced{};
};

/// The result of `runs` runs if the first gives `sum`, and each later one adds `replaced` times the previous result to
/// `kept`, the sum of the other inputs. Exact in any order: only one operand is large, or all are equal.
template <typename T> T sum_of_runs(int runs, int sum, int kept, std::size_t replaced) {
  T value = exactly<T>(sum);
  for (int run = 1; run < runs; ++run) {
    auto next = static_cast<typename Wide<T>::Type>(kept);
    for (std::size_t i = 0; i < replaced; ++i) next += static_cast<typename Wide<T>::Type>(value);
    value = static_cast<T>(next);
  }
  return value;
}

/// `count` sums, from element `begin` on, of the numbers that these keys generate.
std::vector<std::byte> sums(DType dtype, std::span<const std::uint64_t> keys, std::int64_t begin, std::int64_t count,
                            const Runs& runs = {}) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(count) * size_of(dtype));
  with_type(dtype, [&](auto zero) {
    using T = decltype(zero);
    std::vector<T> values;  // indexed by the sum and by the replaced number in it
    for (int sum = 0; sum <= (small_numbers - 1) * static_cast<int>(keys.size()); ++sum) {
      for (int number = 0; number < small_numbers; ++number) {
        values.push_back(runs.replaced ? sum_of_runs<T>(runs.count, sum, sum - number, 1)
                                       : sum_of_runs<T>(runs.count, sum, 0, keys.size()));
      }
    }
    for (std::int64_t i = 0; i < count; ++i) {
      int sum = 0;
      for (const std::uint64_t key : keys) sum += small_number(key, begin + i);
      const int number = runs.replaced ? small_number(*runs.replaced, begin + i) : 0;
      const T value = values[static_cast<std::size_t>(sum) * small_numbers + static_cast<std::size_t>(number)];
      std::memcpy(bytes.data() + static_cast<std::size_t>(i) * sizeof value, &value, sizeof value);
    }
    return 0;
  });
  return bytes;
}

}  // namespace

CollectiveData::CollectiveData(const CollectiveProblem& problem, std::uint64_t seed) : problem_(problem) {
  for (int rank = 0; rank < problem.ranks; ++rank) {
    keys_.push_back(testing::key(seed, {static_cast<std::uint64_t>(problem.rows), static_cast<std::uint64_t>(rank)}));
  }
}

std::vector<std::byte> CollectiveData::input(int rank) const {
  const std::int64_t elements = problem_.input_elements(rank);
  const std::uint64_t key = keys_[static_cast<std::size_t>(rank)];
  if (adds(problem_.operation)) return sums(problem_.dtype, {&key, 1}, 0, elements);
  return testing::random_bytes(key, static_cast<std::size_t>(elements) * size_of(problem_.dtype));
}

std::vector<std::byte> CollectiveData::output(int rank, int in_place) const {
  switch (problem_.operation) {
    case Operation::all_reduce: return sums(problem_.dtype, keys_, 0, problem_.rows, {.count = in_place});
    case Operation::reduce_scatter: {
      const Shard own = problem_.shard(rank);
      return sums(problem_.dtype, keys_, own.begin, own.count,
                  {.count = in_place, .replaced = keys_[static_cast<std::size_t>(rank)]});
    }
    default: return gathered_output(problem_, rank, [this](int from) { return input(from); });
  }
}

std::int64_t different_elements(std::span<const std::byte> got, std::span<const std::byte> wanted,
                                std::size_t element) {
  std::int64_t different = 0;
  for (std::size_t at = 0; at < wanted.size(); at += element) {
    if (std::memcmp(got.data() + at, wanted.data() + at, element) != 0) ++different;
  }
  return different;
}

std::int64_t wrong_elements(const Team& team, CollectiveRun& run, const CollectiveData& data, const QueuedRuns& runs,
                            StreamRef stream, bool corrupted) {
  run.fill(data.input(team.rank()));
  team.barrier();  // no rank may write into a peer's tensor before it has been poisoned
  runs.queue();
  team.synchronize(stream);
  std::vector<std::byte> result = run.result();
  const DType dtype = data.problem().dtype;
  if (corrupted) corrupt(result, dtype);
  const std::vector<std::byte> wanted = data.output(team.rank(), run.in_place() ? runs.runs : 1);
  return count_over_ranks(team, different_elements(result, wanted, size_of(dtype)));
}

}  // namespace tandem::tools
