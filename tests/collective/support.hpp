// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <gtest/gtest.h>
#include <span>
#include <string>
#include <vector>

#include "tandem/base/dims.hpp"
#include "tandem/base/dtype.hpp"
#include "tandem/base/error.hpp"
#include "tandem/base/tensor_view.hpp"
#include "tandem/collective/collective.hpp"
#include "tandem/device/stream.hpp"
#include "tandem/memory/symmetric_tensor.hpp"
#include "tandem/team/team.hpp"

#include "support/draws.hpp"
#include "support/guarded_tensor.hpp"
#include "support/oracle.hpp"
#include "support/ranks.hpp"

namespace tandem::testing {

struct Shape {
  std::int64_t rows;
  std::int64_t columns;
};

/// The random input of `rank` in case `id`, which every rank can compute: arbitrary bits, since collectives that only
/// move data must not interpret them; or values of a dtype with arithmetic.
[[nodiscard]] Bytes moved_bytes(std::uint64_t id, int rank, std::size_t bytes);
[[nodiscard]] std::vector<double> summed_values(std::uint64_t id, int rank, std::int64_t count, DType dtype);
[[nodiscard]] Bytes stored(std::span<const double> values, DType dtype);

/// Write, poison and read this rank's part of a symmetric tensor.
void set(const SymmetricTensor& tensor, std::span<const std::byte> bytes);
void poison(const SymmetricTensor& tensor);
[[nodiscard]] Bytes get(const SymmetricTensor& tensor);
/// A symmetric tensor after its rendezvous.
[[nodiscard]] SymmetricTensor symmetric(const Team& team, const Dims& sizes, DType dtype);

/// Fail the test unless every byte is equal, or every element is within the oracle's bound.
void expect_bytes(const Bytes& got, const Bytes& expected, const std::string& what);
void expect_values(const Bytes& got, const Expected& expected, const std::string& what);
/// Fails the test unless the elements also have the bits of a sum in rank order, in fp32 or wider.
void expect_sums(const Bytes& got, const Expected& expected, const std::string& what);
/// The elements [first, first + count) of `whole`.
[[nodiscard]] Expected part_of(const Expected& whole, std::int64_t first, std::int64_t count);
/// Collective. Fails the test unless `bytes` are equal on all ranks.
void expect_same_on_all_ranks(const Team& team, std::span<const std::byte> bytes, const std::string& what);

/// Delays the stream of one rank by up to `longest_us`; `draws`, which are equal on all ranks, choose rank and delay.
void delay_somebody(const Team& team, StreamRef stream, Draws& draws, std::uint64_t longest_us);

/// Options that read plain views in place, whatever their size.
[[nodiscard]] CollectiveOptions fetching(std::size_t piece_bytes = 0);
/// Whether this team's ranks can run `fetching`.
[[nodiscard]] bool can_fetch(const Team& team);
/// "auto", and `fetching` if ranks can.
[[nodiscard]] std::vector<CollectiveOptions> plain_options(const Team& team, std::size_t piece_bytes = 0);
/// `plain_options`, and "mail" and "one_kernel", which also take symmetric tensors, if the device has them.
[[nodiscard]] std::vector<CollectiveOptions> plain_or_mail_options(const Team& team, std::size_t piece_bytes = 0);

/// Whether a plan with these options takes both plain views and symmetric tensors.
[[nodiscard]] bool takes_all_tensors(const CollectiveOptions& options);

/// "bf16[4, 8], rank 1 of 3"
[[nodiscard]] std::string describe_case(const Team& team, const Dims& sizes, DType dtype);

/// Orders of a world's ranks for sub-teams: all ranks in reverse, and every second one, unsorted.
[[nodiscard]] std::vector<std::vector<int>> odd_orders(int ranks);

/// A suite that runs for each type of device and each team size; skips, with the reason, if there is no such device.
class CollectiveTest : public ::testing::TestWithParam<std::tuple<DeviceType, int>> {
 protected:
  void SetUp() override;
  [[nodiscard]] DeviceType device() const { return std::get<0>(GetParam()); }
  [[nodiscard]] int ranks() const { return std::get<1>(GetParam()); }
  void run(const std::function<void(World&)>& body, RankKind kind = RankKind::processes) const;
};

[[nodiscard]] std::string name_of_case(const ::testing::TestParamInfo<CollectiveTest::ParamType>& info);

/// The dtypes to test on this team: on CUDA, where ranks may take turns on one GPU, larger teams test fewer.
[[nodiscard]] std::span<const DType> moved_dtypes(const Team& team);
[[nodiscard]] std::span<const DType> summed_dtypes(const Team& team);

}  // namespace tandem::testing

#define TANDEM_COLLECTIVE_SUITE(suite)                                                              \
  INSTANTIATE_TEST_SUITE_P(                                                                         \
      On, suite,                                                                                    \
      ::testing::Combine(::testing::Values(::tandem::DeviceType::host, ::tandem::DeviceType::cuda), \
                         ::testing::ValuesIn(::tandem::testing::team_sizes())),                     \
      ::tandem::testing::name_of_case)
