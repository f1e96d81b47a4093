// SPDX-License-Identifier: Apache-2.0
#include "collective/support.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "tandem/device/device.hpp"

#include "memory/private_memory.hpp"
#include "support/devices.hpp"

namespace tandem::testing {
namespace {

constexpr DType all_dtypes[]{f32, f16, bf16, f64, i32, i64, u8, f8e4m3, f8e5m2};
constexpr DType few_dtypes[]{bf16, f32};

bool takes_turns(const Team& team) { return team.device().id().type == DeviceType::cuda && team.size() > 3; }

}  // namespace

void CollectiveTest::SetUp() {
  if (const std::string reason = why_no_ranks_on(device()); !reason.empty()) GTEST_SKIP() << reason;
}

void CollectiveTest::run(const std::function<void(World&)>& body, RankKind kind) const {
  run_ranks(ranks(), body, {.kind = kind, .device = device(), .limit = std::chrono::seconds(240)});
}

std::string name_of_case(const ::testing::TestParamInfo<CollectiveTest::ParamType>& info) {
  return std::string(name(std::get<0>(info.param))) + "_" + std::to_string(std::get<1>(info.param));
}

std::span<const DType> moved_dtypes(const Team& team) {
  return takes_turns(team) ? std::span<const DType>(few_dtypes) : std::span<const DType>(all_dtypes);
}

std::span<const DType> summed_dtypes(const Team& team) {
  return takes_turns(team) ? std::span<const DType>(few_dtypes) : std::span<const DType>(all_dtypes).first(6);
}

Bytes moved_bytes(std::uint64_t id, int rank, std::size_t bytes) {
  return random_bytes(key(seed(), {id, static_cast<std::uint64_t>(rank)}), bytes);
}

std::vector<double> summed_values(std::uint64_t id, int rank, std::int64_t count, DType dtype) {
  return random_values(key(seed(), {id, static_cast<std::uint64_t>(rank)}), count, dtype);
}

Bytes stored(std::span<const double> values, DType dtype) {
  Bytes bytes(values.size() * size_of(dtype));
  store(values, dtype, bytes.data());
  return bytes;
}

void set(const SymmetricTensor& tensor, std::span<const std::byte> bytes) {
  ASSERT_EQ(bytes.size(), tensor.local().bytes());
  tensor.team().device().upload(tensor.memory().data(), bytes.data(), bytes.size());
}

void poison(const SymmetricTensor& tensor) {
  set(tensor, Bytes(tensor.local().bytes(), poison_of(tensor.local().dtype())));
}

Bytes get(const SymmetricTensor& tensor) {
  Bytes result(tensor.local().bytes());
  tensor.team().device().download(result.data(), tensor.memory().data(), result.size());
  return result;
}

SymmetricTensor symmetric(const Team& team, const Dims& sizes, DType dtype) {
  SymmetricTensor tensor = SymmetricTensor::empty(team, sizes, dtype);
  tensor.rendezvous();
  return tensor;
}

void expect_bytes(const Bytes& got, const Bytes& expected, const std::string& what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  const Comparison comparison = compare_bytes(expected, got.data());
  EXPECT_EQ(comparison.wrong, 0) << what << ": " << to_string(comparison);
}

void expect_values(const Bytes& got, const Expected& expected, const std::string& what) {
  ASSERT_EQ(got.size(), expected.value.size() * size_of(expected.dtype)) << what;
  const Comparison comparison = compare(expected, got.data());
  EXPECT_EQ(comparison.wrong, 0) << what << ": " << to_string(comparison);
}

void expect_sums(const Bytes& got, const Expected& expected, const std::string& what) {
  expect_values(got, expected, what);
  expect_bytes(got, stored(expected.unfused, expected.dtype), what + ", as summed in rank order");
}

Expected part_of(const Expected& whole, std::int64_t first, std::int64_t count) {
  const auto cut = [&](const std::vector<double>& values) {
    const auto begin = values.begin() + first;
    return values.empty() ? std::vector<double>() : std::vector<double>(begin, begin + count);
  };
  return {cut(whole.value), cut(whole.unfused), cut(whole.magnitude), cut(whole.rounded), whole.terms, whole.dtype};
}

void expect_same_on_all_ranks(const Team& team, std::span<const std::byte> bytes, const std::string& what) {
  std::uint64_t hash = 0xCBF29CE484222325U;  // FNV-1a
  for (const std::byte b : bytes) hash = (hash ^ std::to_integer<std::uint64_t>(b)) * 0x100000001B3U;
  Parcel parcel;
  parcel.bytes.resize(sizeof(hash));
  std::memcpy(parcel.bytes.data(), &hash, sizeof(hash));
  const auto parcels = team.exchange("the test's comparison", std::move(parcel));
  for (int rank = 0; rank < team.size(); ++rank) {
    std::uint64_t theirs = 0;
    std::memcpy(&theirs, parcels[static_cast<std::size_t>(rank)].bytes.data(), sizeof(theirs));
    EXPECT_EQ(theirs, hash) << what << ": rank " << rank << " has other bits than rank " << team.rank();
  }
}

void delay_somebody(const Team& team, StreamRef stream, Draws& draws, std::uint64_t longest_us) {
  const auto who = static_cast<int>(draws.below(static_cast<std::uint64_t>(team.size())));
  const std::chrono::microseconds pause(draws.below(longest_us + 1));
  if (who == team.rank()) team.device().launch(stream, [pause] { std::this_thread::sleep_for(pause); });
}

CollectiveOptions fetching(std::size_t piece_bytes) { return {.algorithm = "fetch", .piece_bytes = piece_bytes}; }

bool can_fetch(const Team& team) { return why_no_loans(team).empty(); }

std::vector<CollectiveOptions> plain_options(const Team& team, std::size_t piece_bytes) {
  std::vector<CollectiveOptions> options{{.piece_bytes = piece_bytes}};
  if (can_fetch(team)) options.push_back(fetching(piece_bytes));
  return options;
}

std::vector<CollectiveOptions> plain_or_mail_options(const Team& team, std::size_t piece_bytes) {
  std::vector<CollectiveOptions> options = plain_options(team, piece_bytes);
  if (team.device().sends_letters()) options.push_back({.algorithm = "mail", .piece_bytes = piece_bytes});
  if (team.device().exchanges_mail()) options.push_back({.algorithm = "one_kernel", .piece_bytes = piece_bytes});
  return options;
}

bool takes_all_tensors(const CollectiveOptions& options) {
  return options.algorithm == "mail" || options.algorithm == "one_kernel";
}

std::string describe_case(const Team& team, const Dims& sizes, DType dtype) {
  return std::string(name(dtype)) + to_string(sizes) + ", rank " + std::to_string(team.rank()) + " of " +
         std::to_string(team.size());
}

std::vector<std::vector<int>> odd_orders(int ranks) {
  std::vector<int> backwards;
  std::vector<int> every_second;
  for (int rank = ranks - 1; rank >= 0; --rank) backwards.push_back(rank);
  for (int rank = 0; rank < ranks; rank += 2) every_second.push_back(rank);
  std::ranges::rotate(every_second, every_second.begin() + static_cast<std::ptrdiff_t>(every_second.size() / 2));
  return {backwards, every_second};
}

}  // namespace tandem::testing
