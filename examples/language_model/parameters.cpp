// SPDX-License-Identifier: Apache-2.0
#include "language_model/parameters.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "tandem/base/error.hpp"
#include "tandem/linear/linear_spec.hpp"

#include "language_model/random.hpp"
#include "language_model/scalars.hpp"

namespace tandem::language_model {
namespace {

// Parameters begin at multiples of this many elements, so that every GEMM's operands are aligned.
constexpr std::int64_t alignment = 64;

std::int64_t padded(std::int64_t count) { return (count + alignment - 1) / alignment * alignment; }

/// Rows and columns; a vector is one column.
std::pair<std::int64_t, std::int64_t> matrix_of(const Dims& sizes) {
  return {sizes[0], sizes.size() == 1 ? 1 : sizes[1]};
}

/// The rows and columns of a parameter that rank `rank` of `ranks` has.
struct Part {
  Shard rows;
  Shard columns;
};
Part part_of(const Parameter& parameter, int ranks, int rank) {
  const auto [rows, columns] = matrix_of(parameter.full);
  Part part{{0, rows}, {0, columns}};
  if (parameter.split == Split::rows) part.rows = shard_of(rows, ranks, rank);
  if (parameter.split == Split::columns) part.columns = shard_of(columns, ranks, rank);
  return part;
}

TensorView flat(const TensorView& view, std::int64_t begin, const Dims& sizes) {
  return view.narrow(0, begin, sizes.numel()).reshaped(sizes);
}

std::vector<float> widened(const std::vector<std::byte>& bytes, DType dtype) {
  std::vector<float> out(bytes.size() / size_of(dtype));
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = load_scalar(bytes.data() + i * size_of(dtype), dtype);
  return out;
}

}  // namespace

const Parameter& Parameters::add(std::string name, const Dims& full, Split split, double deviation) {
  return parameters_.emplace_back(Parameter{.name = std::move(name),
                                            .full = full,
                                            .split = split,
                                            .deviation = deviation,
                                            .master = {},
                                            .value = {},
                                            .gradient = {}});
}

Dims Parameters::own_sizes(const Parameter& parameter) const {
  const Part part = part_of(parameter, team_.size(), team_.rank());
  return parameter.full.size() == 1 ? Dims{part.rows.count} : Dims{part.rows.count, part.columns.count};
}

void Parameters::allocate(std::uint64_t seed) {
  const auto& device = team_.shared_device();
  for (const bool split : {false, true}) {
    ParameterSlab& slab = slabs_[split ? 1 : 0];
    std::int64_t count = 0;
    for (const Parameter& parameter : parameters_) {
      if ((parameter.split != Split::none) == split) count += padded(own_sizes(parameter).numel());
    }
    slab.master = Tensor(device, {count}, f32);
    if (dtype_ != f32) slab.narrow = Tensor(device, {count}, dtype_);
    slab.value = dtype_ == f32 ? slab.master.view() : slab.narrow.view();
    if (split) {
      slab.own_gradient = Tensor(device, {count}, f32);
      slab.gradient = slab.own_gradient.view();
    } else {
      // Gradients that are summed over ranks are in symmetric memory, where the ranks sum them in place.
      shared_gradients_ = SymmetricTensor::empty(team_, {count + 1}, f32);
      shared_gradients_.rendezvous();
      all_reduce_.emplace_back(team_, AllReduceSpec{.count = count + 1, .dtype = f32},
                               CollectiveOptions{.staging = false});
      slab.gradient = shared_gradients_.local().narrow(0, 0, count);
      loss_ = shared_gradients_.local().narrow(0, count, 1);
    }
    // The optimizer also sweeps the padding, so it must hold valid numbers.
    const std::vector<float> zeros(static_cast<std::size_t>(count), 0.0F);
    device->upload(slab.master.view().data(), zeros.data(), zeros.size() * sizeof(float));
    device->upload(slab.gradient.data(), zeros.data(), zeros.size() * sizeof(float));

    std::int64_t begin = 0;
    for (Parameter& parameter : parameters_) {
      if ((parameter.split != Split::none) != split) continue;
      const Dims sizes = own_sizes(parameter);
      parameter.master = flat(slab.master.view(), begin, sizes);
      parameter.value = flat(slab.value, begin, sizes);
      parameter.gradient = flat(slab.gradient, begin, sizes);
      begin += padded(sizes.numel());
    }
  }
  for (std::size_t i = 0; i < parameters_.size(); ++i) initialize(parameters_[i], random_bits(seed, i));
}

void Parameters::initialize(const Parameter& parameter, std::uint64_t key) const {
  const Part part = part_of(parameter, team_.size(), team_.rank());
  const std::int64_t full_columns = matrix_of(parameter.full).second;
  std::vector<float> values;
  values.reserve(static_cast<std::size_t>(parameter.master.numel()));
  for (std::int64_t r = part.rows.begin; r < part.rows.begin + part.rows.count; ++r) {
    for (std::int64_t c = part.columns.begin; c < part.columns.begin + part.columns.count; ++c) {
      const auto place = static_cast<std::uint64_t>(r * full_columns + c);
      values.push_back(static_cast<float>(parameter.deviation * random_normal(key, place)));
    }
  }
  team_.device().upload(parameter.master.data(), values.data(), values.size() * sizeof(float));
}

void Parameters::refresh(StreamRef stream) const {
  if (dtype_ == f32) return;
  for (const ParameterSlab& slab : slabs_) {
    team_.device().map(stream, {.kind = MapKind::cast,
                                .out = slab.value.data(),
                                .x = slab.master.view().data(),
                                .count = slab.value.numel(),
                                .dtype = f32,
                                .out_dtype = dtype_});
  }
}

void Parameters::sum_over_ranks(StreamRef stream) { all_reduce_.front()(shared_gradients_, stream); }

std::int64_t Parameters::count() const {
  std::int64_t count = 0;
  for (const Parameter& parameter : parameters_) count += parameter.full.numel();
  return count;
}

std::vector<std::vector<float>> gather_full(const Parameters& parameters, ParameterPart what) {
  const Team& team = parameters.team();
  std::vector<std::vector<float>> all;
  for (const Parameter& parameter : parameters.all()) {
    const TensorView& own = what == ParameterPart::value ? parameter.value : parameter.gradient;
    Parcel mine;
    mine.bytes.resize(own.bytes());
    team.device().download(mine.bytes.data(), own.data(), own.bytes());
    const std::vector<Parcel> parcels = team.exchange("gather " + parameter.name, std::move(mine));

    const std::int64_t full_columns = matrix_of(parameter.full).second;
    std::vector<float> full(static_cast<std::size_t>(parameter.full.numel()));
    for (int rank = 0; rank < team.size(); ++rank) {
      const std::vector<std::byte>& bytes = parcels[static_cast<std::size_t>(rank)].bytes;
      if (parameter.split == Split::none && bytes != parcels[0].bytes) {
        throw Error("ranks 0 and " + std::to_string(rank) + " differ in " + parameter.name + ", which each has whole");
      }
      const std::vector<float> values = widened(bytes, own.dtype());
      const Part part = part_of(parameter, team.size(), rank);
      for (std::int64_t r = 0; r < part.rows.count; ++r) {
        std::copy_n(values.begin() + r * part.columns.count, part.columns.count,
                    full.begin() + (part.rows.begin + r) * full_columns + part.columns.begin);
      }
    }
    all.push_back(std::move(full));
  }
  return all;
}

}  // namespace tandem::language_model
