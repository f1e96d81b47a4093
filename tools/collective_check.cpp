// SPDX-License-Identifier: Apache-2.0
#include "tools/collective_check.hpp"

#include <cstring>

#include "tandem/base/scalar.hpp"

#include "support/oracle.hpp"
#include "tools/bench.hpp"
#include "tools/corruption.hpp"

namespace tandem::tools {
namespace {

/// Data whose sums are exact in every dtype: whole numbers from 0 to 3, so that 64 ranks stay below 2^8.
int small_number(std::uint64_t key, std::int64_t index) {
  return static_cast<int>(testing::random_bits(key, static_cast<std::uint64_t>(index)) & 3U);
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

/// `count` sums, from element `begin` on, of the numbers of these keys.
std::vector<std::byte> sums(DType dtype, std::span<const std::uint64_t> keys, std::int64_t begin, std::int64_t count) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(count) * size_of(dtype));
  with_type(dtype, [&](auto zero) {
    using T = decltype(zero);
    for (std::int64_t i = 0; i < count; ++i) {
      int sum = 0;
      for (const std::uint64_t key : keys) sum += small_number(key, begin + i);
      const T value = exactly<T>(sum);
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

std::vector<std::byte> CollectiveData::output(int rank) const {
  switch (problem_.operation) {
    case Operation::all_reduce: return sums(problem_.dtype, keys_, 0, problem_.rows);
    case Operation::reduce_scatter: {
      const Shard own = problem_.shard(rank);
      return sums(problem_.dtype, keys_, own.begin, own.count);
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

std::int64_t wrong_elements(const Team& team, CollectiveRun& run, const CollectiveData& data,
                            const std::function<void()>& body, StreamRef stream, bool corrupted) {
  run.fill(data.input(team.rank()));
  team.barrier();  // nobody writes into a peer before its poison stands
  body();
  team.synchronize(stream);
  std::vector<std::byte> result = run.result();
  const DType dtype = data.problem().dtype;
  if (corrupted) corrupt(result, dtype);
  return count_over_ranks(team, different_elements(result, data.output(team.rank()), size_of(dtype)));
}

}  // namespace tandem::tools
