// SPDX-License-Identifier: Apache-2.0
#include "linear/linear_plan_state.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "tandem/base/error.hpp"
#include "tandem/linear/tuned_choice.hpp"

#include "base/format.hpp"
#include "base/most_elements.hpp"
#include "linear/algorithms.hpp"
#include "team/names.hpp"
#include "team/or_abort.hpp"
#include "team/wire.hpp"

namespace tandem {
namespace {

bool fits(std::int64_t rows, std::int64_t columns) {
  return rows <= most_elements / std::max(columns, std::int64_t{1});
}

bool fits(const LinearSpec& spec) { return fits(spec.m, spec.n) && fits(spec.n, spec.k) && fits(spec.k, spec.m); }

const Team& member(const Team& team, LinearKind kind) {
  if (!team) throw InvalidArgument(format("{}: this rank is not a member of the team that was given", name(kind)));
  return team;
}

/// Called after the ranks have agreed on the arguments, so that all of them reject what any of them passed.
const LinearSpec& validated(const Team& team, LinearKind kind, const LinearSpec& spec) {
  if (spec.m < 0 || spec.n < 0 || spec.k < 0) {
    throw InvalidArgument(format("{} on {}: m={}, n={}, k={}; none may be negative", name(kind), name_own_rank(team),
                                 spec.m, spec.n, spec.k));
  }
  if (!fits(spec)) {
    throw InvalidArgument(format("{} on {}: m={}, n={}, k={}; no matrix of them may have more than {} elements",
                                 name(kind), name_own_rank(team), spec.m, spec.n, spec.k, most_elements));
  }
  const bool is_gradient = kind == LinearKind::linear_weight_gradient;
  if (spec.dtype != f32 && spec.dtype != bf16 && spec.dtype != f16 && (!is_float8(spec.dtype) || is_gradient)) {
    throw Unsupported(format("{} on {}: dtype {} was asked for; allowed: f32, bf16{}", name(kind), name_own_rank(team),
                             name(spec.dtype), is_gradient ? " and f16" : ", f16, f8e4m3 and f8e5m2"));
  }
  if (const std::string why = why_unknown(spec); !why.empty()) {
    throw InvalidArgument(format("{} on {}: {}", name(kind), name_own_rank(team), why));
  }
  if (is_reduction(kind) && static_cast<std::size_t>(team.size()) > max_reduce_operands) {
    throw Unsupported(
        format("{} on {}: sums are over at most {} ranks", name(kind), name_own_rank(team), max_reduce_operands));
  }
  if (spec.tf32 && spec.dtype != f32) {
    throw InvalidArgument(format("{} on {}: TF32 was asked for with dtype {}; it is a way to multiply f32", name(kind),
                                 name_own_rank(team), name(spec.dtype)));
  }
  if (spec.auxiliary != Auxiliary::none && kind != LinearKind::all_gather_linear) {
    throw Unsupported(
        format("{} on {}: auxiliary {} was asked for; of the linear plans only {} has one: what a "
               "reduction activates is a sum over ranks, which Device::map can activate after it",
               name(kind), name_own_rank(team), name(spec.auxiliary), name(LinearKind::all_gather_linear)));
  }
  if (spec.auxiliary != Auxiliary::none && spec.activation == Activation::none) {
    throw InvalidArgument(
        format("{} on {}: auxiliary {} was asked for without an activation; allowed: gelu_erf, "
               "gelu_tanh, or no auxiliary",
               name(kind), name_own_rank(team), name(spec.auxiliary)));
  }
  // Here and below, not in the plans' own constructors: their members allocate before such a body runs.
  if (kind == LinearKind::linear_weight_gradient &&
      (spec.bias || spec.activation != Activation::none || spec.x_layout != Layout::normal ||
       spec.weight_layout != Layout::normal)) {
    throw Unsupported(format("{} on {}: {} was asked for; it has no bias and no activation, and its layouts are normal",
                             name(kind), name_own_rank(team), to_string(spec)));
  }
  return spec;
}

/// What must be equal on all ranks, as text. Contains this rank's own share only if invalid: then all ranks throw.
std::string shared_arguments(const LinearSpec& spec, const LinearOptions& options, bool own_n, std::string_view extra) {
  std::string sizes = to_string(spec);
  if ((own_n ? spec.n : spec.k) >= 0 && fits(spec)) {
    const std::string own = own_n ? format(" n={} ", spec.n) : format(" k={} ", spec.k);
    sizes.replace(sizes.find(own), own.size(), own_n ? " n=(each rank's own) " : " k=(each rank's own) ");
  }
  return format("{}, algorithm {}, groups {}{}{}{}{}", sizes, options.algorithm,
                options.groups ? std::to_string(*options.groups) : "auto",
                options.sms ? format(", on at most {} SMs", *options.sms) : "",
                options.leave_sms != 0 ? format(", leaving {} SMs", options.leave_sms) : "",
                options.keep_gathered ? ", gathered x kept" : "", extra);
}

/// For a weight gradient, the cost model expects the gathered columns in k; those of dy are n.
LinearSpec as_costed(LinearKind kind, LinearSpec spec, bool own_n) {
  if (kind == LinearKind::linear_weight_gradient && !own_n) std::swap(spec.n, spec.k);
  return spec;
}

/// Throws InvalidArgument on all ranks alike, and leaves the team as it was, if a rank's GPU has too few SMs for GEMMs
/// that leave so many; only that rank knows its GPU.
void expect_sms_to_leave(const Team& team, LinearKind kind, int leave_sms) {
  if (leave_sms == 0) return;
  Parcel mine;
  mine.bytes = WireWriter().number(team.device().hardware().blocks_at_once).take();
  const std::vector<Parcel> all = team.exchange(format("the multiprocessors for {}", name(kind)), std::move(mine));
  for (int rank = 0; rank < team.size(); ++rank) {
    const auto sms = WireReader(all[static_cast<std::size_t>(rank)].bytes).number<std::int32_t>();
    if (sms == 0 || leave_sms < sms) continue;
    throw InvalidArgument(format("{} on {}: leave_sms is {} on a GPU of {} SMs; allowed: up to {}, for rank {}",
                                 name(kind), name_own_rank(team), leave_sms, sms, sms - 1, rank));
  }
}

/// The choice of the team's first rank, for all ranks: their plan caches may be different files.
LinearChoice agreed_choice(const Team& team, LinearKind kind, const LinearSpec& spec, const LinearOptions& options) {
  if (const std::string why = why_impossible(kind, spec, team.size(), options); !why.empty()) {
    throw InvalidArgument(format("{} on {}: {}", name(kind), name_own_rank(team), why));
  }
  expect_sms_to_leave(team, kind, options.leave_sms);
  const PlanCache cache(team.rank() == 0 ? team.env().plan_cache : "");
  LinearChoice choice = or_abort(team, format("the choice of {}", name(kind)), [&] {
    return choose_tuned(kind, spec, team.size(), team.device(), options, cache, team.log());
  });
  // Each group is signaled, so all ranks need the same groups; ranks with different shares would choose differently.
  const bool is_open = options.algorithm == "auto" || (has_groups(options.algorithm) && !options.groups);
  if (!is_open || team.size() == 1) return choice;

  Parcel mine;
  if (team.rank() == 0) {
    mine.bytes = WireWriter().text(choice.algorithm).number(choice.groups).text(choice.why).take();
  }
  const std::vector<Parcel> all = team.exchange(format("the choice of {}", name(kind)), std::move(mine));
  WireReader first(all.front().bytes);
  LinearOptions chosen = options;
  chosen.algorithm = first.text();
  if (const int groups = first.number<int>(); groups != 0) chosen.groups = groups;
  choice = choose(kind, spec, team.size(), team.device().costs(), chosen);
  choice.why = first.text();
  return choice;
}

}  // namespace

LinearPlanState::LinearPlanState(const Team& team, LinearKind kind, const LinearSpec& spec,
                                 const LinearOptions& options, OwnShare own_share, std::string_view extra)
    : PlanState(member(team, kind), std::string(name(kind)),
                shared_arguments(spec, options, own_share == OwnShare::n, extra)),
      spec_(validated(team, kind, spec)),
      choice_(agreed_choice(team, kind, as_costed(kind, spec, own_share == OwnShare::n), options)) {
  if (options.keep_gathered && spec.x_layout == Layout::transposed) {
    throw Unsupported(
        format("{} on {}: the gathered x of a transposed layout has no one shape; keep_gathered goes with "
               "Layout::normal",
               name(kind), name_own_rank(team)));
  }
}

Dims LinearPlanState::stored(Layout layout, std::int64_t rows, std::int64_t columns) {
  return layout == Layout::normal ? Dims{rows, columns} : Dims{columns, rows};
}

std::int64_t LinearPlanState::tokens(const TensorView& view, std::string_view argument, std::size_t dim) const {
  if (view.dim() != 2) refuse(format("{} is {}; a matrix is needed", argument, to_string(view)));
  if (view.size(dim) > spec_.m) {
    refuse(format("{} is {}, {} tokens; this plan was made for at most {}", argument, to_string(view), view.size(dim),
                  spec_.m));
  }
  return view.size(dim);
}

std::int64_t LinearPlanState::own_rows(std::int64_t m) const { return shard_of(m, team().size(), team().rank()).count; }

void LinearPlanState::expect_factors(const LinearOperands& given, std::int64_t rows) const {
  expect(given.x, "x", spec_.dtype, stored(spec_.x_layout, rows, spec_.k));
  expect(given.weight, "weight", spec_.dtype_of_weight(), stored(spec_.weight_layout, spec_.n, spec_.k));
  expect_scale(given.x_scale, "x_scale", rows);
  expect_scale(given.weight_scale, "weight_scale", spec_.n);
}

void LinearPlanState::expect_scale(const TensorView& scale, std::string_view argument, std::int64_t count) const {
  if (spec_.scaling == Scaling::none) {
    if (scale.data() == nullptr) return;
    refuse(format("{} of sizes {} was given to a plan made without LinearSpec::scaling", argument,
                  to_string(scale.sizes())));
  }
  const bool one = spec_.scaling == Scaling::per_tensor;
  if (scale.data() == nullptr && (one || count != 0)) {
    refuse(format("no {} was given to a plan made with LinearSpec::scaling {}; f32[{}] is needed", argument,
                  name(spec_.scaling), one ? 1 : count));
  }
  if (one && scale.numel() != 1) {
    refuse(format("{} is {}; of LinearSpec::scaling per_tensor f32[] or f32[1] is needed", argument, to_string(scale)));
  }
  expect(scale, argument, f32, one ? scale.sizes() : Dims{count});
}

void LinearPlanState::expect_bias(const TensorView& bias) const {
  if (spec_.bias) {
    if (bias.data() == nullptr && spec_.n != 0) {
      refuse(format("no bias was given to a plan made with LinearSpec::bias; {}[{}] is needed",
                    name(spec_.dtype_of_y()), spec_.n));
    }
    expect(bias, "bias", spec_.dtype_of_y(), Dims{spec_.n});
  } else if (bias.data() != nullptr) {
    refuse(format("a bias of sizes {} was given to a plan made without LinearSpec::bias", to_string(bias.sizes())));
  }
}

void LinearPlanState::expect_auxiliary(const TensorView& aux, std::int64_t m) const {
  if (spec_.auxiliary != Auxiliary::none) {
    expect(aux, "aux", spec_.dtype_of_y(), Dims{m, spec_.n});
  } else if (aux.data() != nullptr) {
    refuse(format("an auxiliary of sizes {} was given to a plan made without LinearSpec::auxiliary",
                  to_string(aux.sizes())));
  }
}

void LinearPlanState::expect_apart_from_inputs(
    const TensorView& output, std::string_view argument,
    std::initializer_list<std::pair<std::string_view, const TensorView&>> inputs) const {
  for (const auto& [name, input] : inputs) expect_apart(output, argument, input, name);
}

void LinearPlanState::expect_apart_from_inputs(const TensorView& output, std::string_view argument,
                                               const LinearOperands& given) const {
  expect_apart_from_inputs(output, argument,
                           {{"x", given.x},
                            {"weight", given.weight},
                            {"bias", given.bias},
                            {"x_scale", given.x_scale},
                            {"weight_scale", given.weight_scale}});
}

void LinearPlanState::describe_product(const Gemm& gemm, const std::string& communication, const std::string& parts) {
  const std::string alone = team().size() == 1 ? ", which is one product here, since nothing travels" : "";
  set_description(format("{} {} on {} rank{}\n{}{}\nlocal product: {}\n{}communication: {}", kind(), to_string(spec_),
                         team().size(), team().size() == 1 ? "" : "s", to_string(choice_), alone, gemm.describe(),
                         parts.empty() ? "" : format("products of parts: {}\n", parts), communication));
}

}  // namespace tandem
