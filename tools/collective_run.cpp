// SPDX-License-Identifier: Apache-2.0
#include "tools/collective_run.hpp"

#include <algorithm>
#include <array>

namespace tandem::tools {
namespace {

// Small enough to cost nothing, but wider than a vector store that overruns the tensor.
constexpr std::int64_t guard_elements = 64;
constexpr std::byte guard{0xa5};
constexpr std::byte poison{0xff};  // NaN in every floating-point type

using Variant = std::variant<AllGather, AllReduce, AllToAll, Broadcast, ReduceScatter>;

Variant make(const Team& team, Operation operation, std::int64_t count, DType dtype, const CollectiveOptions& options) {
  switch (operation) {
    case Operation::all_gather: return AllGather(team, {count, dtype}, options);
    case Operation::reduce_scatter: return ReduceScatter(team, {count, dtype}, options);
    case Operation::all_to_all: return AllToAll(team, {count, dtype}, options);
    case Operation::broadcast: return Broadcast(team, {count, dtype}, options);
    default: return AllReduce(team, {count, dtype}, options);
  }
}

Tensors tensors_of(const Form& form) {
  if (form.symmetric_output) return Tensors::symmetric_output;
  return form.symmetric_input ? Tensors::symmetric_input : Tensors::plain;
}

std::span<const std::string_view> algorithms_on(Operation operation, Tensors tensors) {
  switch (operation) {
    case Operation::all_gather: return AllGather::algorithms(tensors);
    case Operation::reduce_scatter: return ReduceScatter::algorithms(tensors);
    case Operation::all_to_all: return AllToAll::algorithms(tensors);
    case Operation::broadcast: return Broadcast::algorithms(tensors);
    default: return AllReduce::algorithms(tensors);
  }
}

void fill_bytes(Device& device, void* memory, std::byte value, std::size_t bytes) {
  if (bytes == 0) return;
  const std::vector<std::byte> pattern(bytes, value);
  device.upload(memory, pattern.data(), bytes);
}

/// Calls body(address, bytes) for each contiguous part of a view.
template <typename Body> void for_each_row(const TensorView& view, const Body& body) {
  if (view.is_dense()) return body(view.data_as<std::byte>(), view.bytes());
  for (std::int64_t row = 0; row < view.size(0); ++row) {
    const TensorView one = view.narrow(0, row, 1);
    body(one.data_as<std::byte>(), one.bytes());
  }
}

bool all_bytes(Device& device, const void* memory, std::byte value, std::size_t bytes) {
  std::vector<std::byte> found(bytes);
  if (bytes != 0) device.download(found.data(), memory, bytes);
  return std::ranges::all_of(found, [value](std::byte each) { return each == value; });
}

}  // namespace

std::span<const Form> forms(Operation operation) {
  static constexpr std::array<Form, 4> gather{{{"plain", false, false, false},
                                               {"plain in place", false, false, true},
                                               {"into symmetric", false, true, false},
                                               {"symmetric in place", true, true, true}}};
  static constexpr std::array<Form, 4> scatter{{{"plain", false, false, false},
                                                {"plain in place", false, false, true},
                                                {"from symmetric", true, false, false},
                                                {"symmetric in place", true, true, true}}};
  static constexpr std::array<Form, 6> reduce{{{"plain", false, false, false},
                                               {"plain in place", false, false, true},
                                               {"into symmetric", false, true, false},
                                               {"from symmetric", true, false, false},
                                               {"symmetric", true, true, false},
                                               {"symmetric in place", true, true, true}}};
  static constexpr std::array<Form, 3> exchange{
      {{"plain", false, false, false}, {"into symmetric", false, true, false}, {"from symmetric", true, false, false}}};
  switch (operation) {
    case Operation::all_gather:
    case Operation::broadcast: return gather;
    case Operation::reduce_scatter: return scatter;
    case Operation::all_to_all: return exchange;
    default: return reduce;
  }
}

std::vector<std::string> algorithms(Operation operation, const Form& form) {
  const std::span<const std::string_view> taken = algorithms_on(operation, tensors_of(form));
  std::vector<std::string> all{"auto"};
  all.insert(all.end(), taken.begin(), taken.end());
  return all;
}

const Form* form_for(Operation operation, const std::string& algorithm, bool symmetric, bool in_place) {
  const auto sides = [](const Form& form) { return int{form.symmetric_input} + int{form.symmetric_output}; };
  const Form* best = nullptr;
  for (const Form& form : forms(operation)) {
    const std::vector<std::string> takers = algorithms(operation, form);
    if (form.in_place != in_place || (sides(form) > 0) != symmetric) continue;
    if (std::ranges::find(takers, algorithm) == takers.end()) continue;
    if (best == nullptr || sides(form) > sides(*best)) best = &form;
  }
  return best;
}

Shard CollectiveProblem::shard(int rank) const {
  const Shard shard = shard_of(rows, ranks, rank);
  return {shard.begin * row, shard.count * row};
}

std::int64_t CollectiveProblem::part(int from, int to) const {
  return counts.empty()
             ? rows * row
             : counts[static_cast<std::size_t>(from) * static_cast<std::size_t>(ranks) + static_cast<std::size_t>(to)];
}

std::int64_t CollectiveProblem::input_elements(int rank) const {
  if (operation == Operation::all_gather) return shard(rank).count;
  if (operation != Operation::all_to_all) return rows * row;
  std::int64_t sum = 0;
  for (int to = 0; to < ranks; ++to) sum += part(rank, to);
  return sum;
}

std::int64_t CollectiveProblem::output_elements(int rank) const {
  if (operation == Operation::reduce_scatter) return shard(rank).count;
  if (operation != Operation::all_to_all) return rows * row;
  std::int64_t sum = 0;
  for (int from = 0; from < ranks; ++from) sum += part(from, rank);
  return sum;
}

std::int64_t CollectiveProblem::plan_count() const {
  switch (operation) {
    case Operation::all_gather:
    case Operation::reduce_scatter: return shard(0).count;
    case Operation::all_to_all: return counts.empty() ? rows * row : std::ranges::max(counts);
    default: return rows * row;
  }
}

CollectiveProblem sized_problem(Operation operation, int ranks, std::int64_t bytes, DType dtype, int root) {
  CollectiveProblem problem{.operation = operation, .ranks = ranks, .dtype = dtype, .root = root};
  const std::int64_t elements = bytes / static_cast<std::int64_t>(size_of(dtype));
  switch (operation) {
    case Operation::all_gather:
    case Operation::reduce_scatter: problem.rows = elements / ranks * ranks; break;
    case Operation::all_to_all: problem.rows = elements / ranks; break;
    default: problem.rows = elements;
  }
  return problem;
}

std::vector<std::byte> gathered_output(const CollectiveProblem& problem, int rank,
                                       const std::function<std::vector<std::byte>(int)>& input) {
  if (problem.operation == Operation::broadcast) return input(problem.root);
  const std::size_t element = size_of(problem.dtype);
  std::vector<std::byte> whole;
  for (int from = 0; from < problem.ranks; ++from) {
    const std::vector<std::byte> given = input(from);
    std::span<const std::byte> part = given;
    if (problem.operation == Operation::all_to_all) {
      std::int64_t before = 0;
      for (int to = 0; to < rank; ++to) before += problem.part(from, to);
      part = part.subspan(static_cast<std::size_t>(before) * element,
                          static_cast<std::size_t>(problem.part(from, rank)) * element);
    }
    whole.insert(whole.end(), part.begin(), part.end());
  }
  return whole;
}

CollectivePlan::CollectivePlan(const Team& team, Operation operation, std::int64_t count, DType dtype,
                               const CollectiveOptions& options)
    : plan_(make(team, operation, count, dtype, options)) {}

const std::string& CollectivePlan::describe() const {
  return std::visit([](const auto& plan) -> const std::string& { return plan.describe(); }, plan_);
}

std::string_view CollectivePlan::algorithm(std::int64_t count, const Form& form) const {
  return std::visit([&](const auto& plan) { return plan.algorithm(count, tensors_of(form)); }, plan_);
}

CollectiveRun::CollectiveRun(const Team& team, const CollectiveProblem& problem, const Form& form, std::int64_t offset,
                             std::int64_t gap)
    : team_(team), problem_(problem), form_(form), offset_(offset), gap_(gap) {
  const int me = team.rank();
  std::int64_t input_room = 0;
  std::int64_t output_room = 0;
  for (int rank = 0; rank < problem.ranks; ++rank) {
    input_room = std::max(input_room, problem.input_elements(rank));
    output_room = std::max(output_room, problem.output_elements(rank));
  }
  const std::int64_t input = problem.input_elements(me);
  const std::int64_t output = problem.output_elements(me);
  const bool splits_input = problem.operation == Operation::all_gather;
  const bool splits_output = problem.operation == Operation::reduce_scatter;
  const bool parts = problem.operation == Operation::all_to_all;

  if (!form.in_place) {
    first_ = tensor(form.symmetric_input, input, input_room, !splits_input && !parts);
    second_ = tensor(form.symmetric_output, output, output_room, !splits_output && !parts);
    input_ = first_.view;
    output_ = second_.view;
    return;
  }
  first_ = tensor(form.symmetric_input, problem.rows * problem.row, problem.rows * problem.row, true);
  input_ = first_.view;
  output_ = first_.view;
  const Shard own = shard_of(problem.rows, problem.ranks, me);
  if (splits_input) input_ = first_.view.narrow(0, own.begin, own.count);
  if (splits_output) output_ = first_.view.narrow(0, own.begin, own.count);
}

CollectiveRun::Tensor CollectiveRun::tensor(bool symmetric, std::int64_t elements, std::int64_t room,
                                            bool whole) const {
  const Dims sizes = whole ? Dims{problem_.rows, problem_.row} : Dims{elements};
  const std::size_t element = size_of(problem_.dtype);
  const auto bytes_around = [&](std::int64_t own) {
    return static_cast<std::size_t>(own + offset_ + 2 * guard_elements) * element;
  };
  const std::size_t before = static_cast<std::size_t>(guard_elements + offset_) * element;
  Tensor tensor;
  if (symmetric) {
    const Dims all = whole ? sizes : Dims{room};
    if (offset_ == 0) {
      tensor.symmetric = SymmetricTensor::empty(team_, all, problem_.dtype);
    } else {
      tensor.allocation = SymmetricMemory::allocate(team_, bytes_around(all.numel()));
      std::byte* const begin = tensor.allocation.data();
      tensor.around = {begin, tensor.allocation.bytes()};
      fill_bytes(team_.device(), begin, guard, tensor.around.size());
      tensor.symmetric = SymmetricTensor::wrap(team_, begin + before, all, problem_.dtype);
    }
    tensor.symmetric.rendezvous();
    tensor.view = whole ? tensor.symmetric.local() : tensor.symmetric.local().narrow(0, 0, elements);
    return tensor;
  }
  const std::int64_t row = whole ? problem_.row : 1;
  tensor.buffer = Buffer(team_.shared_device(), bytes_around(sizes[0] * (row + gap_)));
  tensor.around = {tensor.buffer.data_as<std::byte>(), tensor.buffer.bytes()};
  fill_bytes(team_.device(), tensor.buffer.data(), guard, tensor.buffer.bytes());
  std::byte* begin = tensor.buffer.data_as<std::byte>() + before;
  const Dims strides = whole ? Dims{row + gap_, 1} : Dims{row + gap_};
  tensor.view = TensorView(begin, sizes, strides, problem_.dtype, team_.device().id());
  return tensor;
}

void CollectiveRun::fill(std::span<const std::byte> input) {
  Device& device = team_.device();
  const auto spoil = [&](std::byte* data, std::size_t bytes) { fill_bytes(device, data, poison, bytes); };
  for_each_row(first_.view, spoil);
  if (!form_.in_place) for_each_row(second_.view, spoil);
  const bool reads = problem_.operation != Operation::broadcast || !form_.in_place || team_.rank() == problem_.root;
  if (!reads) return;
  for_each_row(input_, [&](std::byte* data, std::size_t bytes) {
    if (bytes != 0) device.upload(data, input.data(), bytes);
    input = input.subspan(bytes);
  });
}

void CollectiveRun::operator()(CollectivePlan& plan, StreamRef stream) {
  const bool from = form_.symmetric_input;
  const bool into = form_.symmetric_output;
  switch (problem_.operation) {
    case Operation::all_gather: {
      auto& run = plan.as<AllGather>();
      if (form_.in_place && into) return run(first_.symmetric, stream);
      return into ? run(input_, second_.symmetric, stream) : run(input_, output_, stream);
    }
    case Operation::reduce_scatter: {
      auto& run = plan.as<ReduceScatter>();
      if (form_.in_place && from) return run(first_.symmetric, stream);
      return from ? run(first_.symmetric, output_, stream) : run(input_, output_, stream);
    }
    case Operation::all_to_all: {
      auto& run = plan.as<AllToAll>();
      const std::span<const std::int64_t> counts(problem_.counts);
      if (counts.empty()) {
        if (into) return run(input_, second_.symmetric, stream);
        return from ? run(first_.symmetric, output_, stream) : run(input_, output_, stream);
      }
      if (into) return run(input_, second_.symmetric, counts, stream);
      return from ? run(first_.symmetric, output_, counts, stream) : run(input_, output_, counts, stream);
    }
    case Operation::broadcast: {
      auto& run = plan.as<Broadcast>();
      const int root = problem_.root;
      if (form_.in_place) return into ? run(first_.symmetric, root, stream) : run(first_.view, root, stream);
      return into ? run(input_, second_.symmetric, root, stream) : run(input_, output_, root, stream);
    }
    default: {
      auto& run = plan.as<AllReduce>();
      if (form_.in_place) return into ? run(first_.symmetric, stream) : run(input_, output_, stream);
      if (from && into) return run(first_.symmetric, second_.symmetric, stream);
      if (from) return run(first_.symmetric, output_, stream);
      return into ? run(input_, second_.symmetric, stream) : run(input_, output_, stream);
    }
  }
}

std::vector<std::byte> CollectiveRun::result() const { return elements_of(output_); }

std::vector<std::byte> CollectiveRun::elements_of(const TensorView& view) const {
  std::vector<std::byte> found(view.bytes());
  std::size_t at = 0;
  for_each_row(view, [&](const std::byte* data, std::size_t bytes) {
    if (bytes != 0) team_.device().download(found.data() + at, data, bytes);
    at += bytes;
  });
  return found;
}

bool CollectiveRun::guards_stand(const Tensor& tensor) const {
  if (tensor.around.empty()) return true;
  const std::byte* begin = tensor.around.data();
  bool stand = true;
  for_each_row(tensor.view, [&](const std::byte* data, std::size_t bytes) {
    stand = stand && all_bytes(team_.device(), begin, guard, static_cast<std::size_t>(data - begin));
    begin = data + bytes;
  });
  const std::byte* const end = tensor.around.data() + tensor.around.size();
  return stand && all_bytes(team_.device(), begin, guard, static_cast<std::size_t>(end - begin));
}

bool CollectiveRun::kept_its_bounds(std::span<const std::byte> input) const {
  if (!guards_stand(first_) || !guards_stand(second_)) return false;
  return form_.in_place || std::ranges::equal(elements_of(input_), input);
}

}  // namespace tandem::tools
