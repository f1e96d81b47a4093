// SPDX-License-Identifier: Apache-2.0
#include "linear/linear_reduce_scatter/state.hpp"

#include "base/format.hpp"
#include "linear/algorithms.hpp"

namespace tandem {

LinearReduceScatter::State::State(const Team& team, const LinearSpec& spec, const LinearOptions& options)
    : LinearPlanState(team, LinearKind::linear_reduce_scatter, spec, options, OwnShare::k),
      groups_(equal_groups(team.size() - 1, choice().groups)),
      algorithm_(team.size() == 1 ? &State::alone
                                  : algorithm_named(choice().algorithm, scattering_algorithms,
                                                    {&State::pipeline, &State::direct, &State::sequence})),
      // Between two ranks, groups are rounds if the GEMMs of the own rows add what the peer sent.
      sums_(team, spec, choice(), PartialSums::Rows::own,
            equal_parts(has_groups(choice().algorithm) && own_product_adds(spec, team.size(), choice().groups)
                            ? choice().groups
                            : 1),
            operation()),
      communication_(team, choice().algorithm == tandem::sequence ? 0 : CommunicationStreams::for_copies(team)) {
  describe_product(sums_.gemm(), sums_.communication(), sums_.adding());
  keep_in_graphs(sums_.owners());
}

void LinearReduceScatter::State::run(const TensorView& x, const TensorView& weight, const TensorView& bias,
                                     const TensorView& y, StreamRef stream) {
  const std::int64_t m = tokens(x, "x", spec().x_layout == Layout::normal ? 0 : 1);
  expect(x, "x", spec().dtype, stored(spec().x_layout, m, spec().k));
  expect(weight, "weight", spec().dtype, stored(spec().weight_layout, spec().n, spec().k));
  expect_bias(bias);
  expect(y, "y", spec().dtype, Dims{own_rows(m), spec().n});
  expect_apart_from_inputs(y, "y", {{"x", x}, {"weight", weight}, {"bias", bias}});
  expect_alike(stream, [&] { return format("a run of {} tokens", m); });

  begin(stream);
  const PartialSums::Operands operands{x.data_as<std::byte>(), weight.data(), bias.data(), y.data_as<std::byte>(), m};
  whole_or_failed([&] {
    rejoin_if_thrown(communication_, stream, [&] { (this->*algorithm_)(operands, stream); });
    sums_.finish(stream);
    end(stream);
  });
}

}  // namespace tandem
