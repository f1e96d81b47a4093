// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tandem/collective/all_gather.hpp"
#include "tandem/collective/all_reduce.hpp"
#include "tandem/collective/all_to_all.hpp"
#include "tandem/collective/broadcast.hpp"
#include "tandem/collective/reduce_scatter.hpp"
#include "tandem/device/buffer.hpp"

#include "tools/operation.hpp"

namespace tandem::tools {

/// Which of a run's tensors are symmetric, and whether it is in-place.
struct Form {
  std::string_view name;
  bool symmetric_input = false;
  bool symmetric_output = false;
  bool in_place = false;
};

/// The forms that a collective supports.
[[nodiscard]] std::span<const Form> forms(Operation operation);
/// "auto", and the algorithms that support tensors of this form.
[[nodiscard]] std::vector<std::string> algorithms(Operation operation, const Form& form);
/// The form in which to measure an algorithm on symmetric or plain tensors: the one with the most symmetric tensors;
/// for all_to_all, the one that `auto` pushes into. Null if the algorithm does not support such tensors.
[[nodiscard]] const Form* form_for(Operation operation, const std::string& algorithm, bool symmetric, bool in_place);

/// The sizes of one run of a collective.
struct CollectiveProblem {
  Operation operation = Operation::all_reduce;
  int ranks = 1;
  std::int64_t rows = 0;  ///< of the whole tensor, [rows, row]; all_to_all: of the part that one rank sends to another
  std::int64_t row = 1;
  DType dtype = f32;
  int root = 0;  ///< broadcast only
  std::vector<std::int64_t>
      counts{};  ///< all_to_all: elements from rank i to rank j at [i · ranks + j]; empty: equal parts

  [[nodiscard]] std::int64_t input_elements(int rank) const;
  [[nodiscard]] std::int64_t output_elements(int rank) const;
  /// The `count` of the plan's spec.
  [[nodiscard]] std::int64_t plan_count() const;
  /// A rank's shard of the whole tensor, in elements.
  [[nodiscard]] Shard shard(int rank) const;
  /// all_to_all: elements that `from` sends to `to`.
  [[nodiscard]] std::int64_t part(int from, int to) const;
};

/// The problem that `bench` runs for a size in bytes: the size of a rank's output for all_gather, of its input for
/// reduce_scatter and all_to_all, and of either for the others.
[[nodiscard]] CollectiveProblem sized_problem(Operation operation, int ranks, std::int64_t bytes, DType dtype,
                                              int root = 0);

/// The output of `rank` for an operation that only moves data, if rank r's input is `input(r)`.
[[nodiscard]] std::vector<std::byte> gathered_output(const CollectiveProblem& problem, int rank,
                                                     const std::function<std::vector<std::byte>(int)>& input);

/// A plan of any of the five kinds, for problems of at most `count` and one dtype.
class CollectivePlan {
 public:
  /// Collective.
  CollectivePlan(const Team& team, Operation operation, std::int64_t count, DType dtype,
                 const CollectiveOptions& options);
  [[nodiscard]] const std::string& describe() const;
  /// The algorithm of a run of `count` (as in the plan's spec) on tensors of this form; with "auto", the chosen one.
  [[nodiscard]] std::string_view algorithm(std::int64_t count, const Form& form) const;

  template <typename T> [[nodiscard]] T& as() { return std::get<T>(plan_); }

 private:
  std::variant<AllGather, AllReduce, AllToAll, Broadcast, ReduceScatter> plan_;
};

/// One rank's tensors for a problem, in the given form.
class CollectiveRun {
 public:
  /// Collective if the form is symmetric. Plain tensors begin `offset` elements into their allocation, surrounded by
  /// guards, with `gap` elements between their rows. So do symmetric ones, without gaps, if there is an offset; else
  /// they are allocations of their own.
  CollectiveRun(const Team& team, const CollectiveProblem& problem, const Form& form, std::int64_t offset = 0,
                std::int64_t gap = 0);

  /// Writes the input (input_elements of it), and poisons everything that a run must overwrite.
  void fill(std::span<const std::byte> input);
  /// Queues one run.
  void operator()(CollectivePlan& plan, StreamRef stream);
  /// Whether a run's output overwrites (a part of) its input.
  [[nodiscard]] bool in_place() const noexcept { return form_.in_place; }
  /// The output. The stream must have been synchronized.
  [[nodiscard]] std::vector<std::byte> result() const;
  /// False if a run wrote outside its output, or changed the input that `fill` was given.
  [[nodiscard]] bool kept_its_bounds(std::span<const std::byte> input) const;

 private:
  struct Tensor {
    Buffer buffer;               // of a plain tensor
    SymmetricMemory allocation;  // in which a symmetric one lies
    SymmetricTensor symmetric;
    std::span<std::byte> around;  // either, with its guards; empty if there are none
    TensorView view;
  };
  [[nodiscard]] Tensor tensor(bool symmetric, std::int64_t elements, std::int64_t room, bool whole) const;
  [[nodiscard]] std::vector<std::byte> elements_of(const TensorView& view) const;
  [[nodiscard]] bool guards_stand(const Tensor& tensor) const;

  Team team_;
  CollectiveProblem problem_;
  Form form_;
  std::int64_t offset_;
  std::int64_t gap_;
  Tensor first_;   // the input; if in place, the whole tensor
  Tensor second_;  // the output; unused if in place
  TensorView input_;
  TensorView output_;
};

}  // namespace tandem::tools
