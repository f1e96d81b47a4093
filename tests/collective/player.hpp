// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "tandem/collective/all_gather.hpp"
#include "tandem/collective/all_reduce.hpp"
#include "tandem/collective/all_to_all.hpp"
#include "tandem/collective/broadcast.hpp"
#include "tandem/collective/reduce_scatter.hpp"

#include "collective/support.hpp"

namespace tandem::testing {

/// Elements per rank of small and of large operations, and of those that are so small that they go by mail.
struct Extents {
  std::int64_t small;
  std::int64_t large;
  std::int64_t tiny = 60;
};
inline constexpr Extents some_pieces{600, 3000};
inline constexpr std::size_t piece = 4096;

/// The kind of an operation: a collective, and which tensors it uses: plain ones, unless the name says otherwise.
enum class Play : std::uint8_t {
  gather,
  gather_in_place,
  gather_into_symmetric,
  scatter,
  scatter_symmetric,
  reduce,
  reduce_symmetric,
  exchange,
  exchange_into_symmetric,
  broadcast,
  broadcast_symmetric,
  exchange_by_counts,
  exchange_symmetric_by_counts,
  gather_in_steps,
  scatter_by_push,
  gather_by_fetch,
  scatter_by_fetch,
  reduce_by_fetch,
  exchange_by_fetch,
  broadcast_by_fetch,
};
inline constexpr std::array play_names{
    "all_gather",
    "all_gather in place",
    "all_gather into symmetric",
    "reduce_scatter",
    "reduce_scatter from symmetric",
    "all_reduce",
    "all_reduce of symmetric",
    "all_to_all",
    "all_to_all into symmetric",
    "broadcast",
    "broadcast of symmetric",
    "all_to_all by counts",
    "all_to_all by counts from symmetric",
    "all_gather in steps",
    "reduce_scatter by push",
    "all_gather by fetch",
    "reduce_scatter by fetch",
    "all_reduce by fetch",
    "all_to_all by fetch",
    "broadcast by fetch",
};
static_assert(play_names.size() == static_cast<std::size_t>(Play::broadcast_by_fetch) + 1);

/// Queues operations on one team and one stream, all through the same few tensors, copies each result to a place of its
/// own, and checks the results after synchronizing the stream. All ranks draw the same operations. Data is whole
/// numbers, so that sums are exact; each element depends on its rank, run and index.
template <typename Element> class Player {
 public:
  /// For up to `runs` operations between two checks; on a stream of its own, or on `stream`, which has to outlive it.
  Player(const Team& team, std::uint64_t sequence, int runs, Extents extents = some_pieces,
         std::optional<StreamRef> stream = {})
      : team_(team),
        extents_(extents),
        runs_(runs),
        draws_(sequence),
        salt_(key(seed(), {sequence})),
        own_stream_(team.device()),
        stream_(stream.value_or(own_stream_)),
        plans_(team, extents, {.piece_bytes = piece}),
        pushing_(team, {.count = extents.large, .dtype = dtype}, {.algorithm = "push", .piece_bytes = piece}),
        symmetric_(symmetric(team, {total()}, dtype)),
        small_symmetric_(symmetric(team, {extents.small * team.size()}, dtype)),
        tiny_symmetric_(symmetric(team, {extents.tiny * team.size()}, dtype)),
        input_(team, {total()}, dtype, 1),
        output_(team, {total()}, dtype, 3),
        inputs_(team.shared_device(), static_cast<std::size_t>(runs * total()) * size_of(dtype)),
        outputs_(team.shared_device(), inputs_.bytes()) {
    if (can_fetch(team)) fetching_.emplace(team, extents, fetching(piece));
    prepare();
  }

  [[nodiscard]] StreamRef stream() const { return stream_; }

  /// Queues one operation: fresh data into the shared input, the run, and its result out of the shared output.
  void play(std::uint64_t longest_delay_us) {
    if (draws_.below(16) == 0) delay_somebody(team_, stream_, draws_, longest_delay_us);
    const std::int64_t n = team_.size();
    const std::array sizes{&small_symmetric_, &symmetric_, &tiny_symmetric_};
    const SymmetricTensor& tensor = *sizes[draws_.below(sizes.size())];
    const std::int64_t count = tensor.sizes().numel() / n;
    const std::size_t plays = fetching_ ? play_names.size() : static_cast<std::size_t>(Play::gather_by_fetch);
    const auto play = static_cast<Play>(draws_.below(plays));
    const auto root = static_cast<int>(draws_.below(static_cast<std::uint64_t>(n)));
    const TensorView whole_input = front(input_.view(), n * count);
    const TensorView whole_output = front(output_.view(), n * count);
    const TensorView part_input = front(input_.view(), count);
    const TensorView part_output = front(output_.view(), count);
    const TensorView local = tensor.local();
    const auto run = [&](const TensorView& from, const TensorView& result, const auto& body) {
      write(from);
      body();
      keep(result);
      results_.push_back({play, run_++, count, root, result.numel(), counts_});
    };
    counts_.clear();
    if (play == Play::exchange_by_counts || play == Play::exchange_symmetric_by_counts) draw_counts(count);
    switch (play) {
      case Play::gather:
        return run(part_input, whole_output, [&] { plans_.gather(part_input, whole_output, stream_); });
      case Play::gather_in_place:
        return run(local.narrow(0, team_.rank() * count, count), local, [&] { plans_.gather(tensor, stream_); });
      case Play::gather_into_symmetric:
        return run(part_input, local, [&] { plans_.gather(part_input, tensor, stream_); });
      case Play::scatter:
        return run(whole_input, part_output, [&] { plans_.scatter(whole_input, part_output, stream_); });
      case Play::scatter_symmetric:
        return run(local, part_output, [&] { plans_.scatter(tensor, part_output, stream_); });
      case Play::reduce:
        return run(whole_input, whole_output, [&] { plans_.reduce(whole_input, whole_output, stream_); });
      case Play::reduce_symmetric: return run(local, local, [&] { plans_.reduce(tensor, stream_); });
      case Play::exchange:
        return run(whole_input, whole_output, [&] { plans_.exchange(whole_input, whole_output, stream_); });
      case Play::exchange_into_symmetric:
        return run(whole_input, local, [&] { plans_.exchange(whole_input, tensor, stream_); });
      case Play::broadcast:
        return run(whole_input, whole_output, [&] { plans_.broadcast(whole_input, whole_output, root, stream_); });
      case Play::broadcast_symmetric: return run(local, local, [&] { plans_.broadcast(tensor, root, stream_); });
      case Play::exchange_by_counts: {
        const TensorView from = front(input_.view(), sent());
        const TensorView into = front(output_.view(), got());
        return run(from, into, [&] { plans_.exchange(from, into, counts_, stream_); });
      }
      case Play::exchange_symmetric_by_counts: {
        const TensorView into = front(output_.view(), got());
        return run(local, into, [&] { plans_.exchange(tensor, into, counts_, stream_); });
      }
      case Play::gather_in_steps:
        return run(part_input, local, [&] {
          plans_.gather.start(part_input, tensor, stream_);
          for (int rank = root; rank < team_.size(); rank += 2) plans_.gather.wait_shard(rank, stream_);
          plans_.gather.finish(stream_);
        });
      case Play::scatter_by_push:
        return run(whole_input, part_output, [&] { pushing_(whole_input, part_output, stream_); });
      case Play::gather_by_fetch:
        return run(part_input, whole_output, [&] { fetching_->gather(part_input, whole_output, stream_); });
      case Play::scatter_by_fetch:
        return run(whole_input, part_output, [&] { fetching_->scatter(whole_input, part_output, stream_); });
      case Play::reduce_by_fetch:
        return run(whole_input, whole_input, [&] { fetching_->reduce(whole_input, whole_input, stream_); });
      case Play::exchange_by_fetch:
        return run(whole_input, whole_output, [&] { fetching_->exchange(whole_input, whole_output, stream_); });
      case Play::broadcast_by_fetch:
        return run(whole_input, whole_output, [&] { fetching_->broadcast(whole_input, whole_output, root, stream_); });
    }
  }

  /// Call when the runs so far have been captured: from now on they are replayed on the same data, and always checked.
  void repeats_what_was_played() { repeated_ = results_.size(); }

  /// Synchronizes, checks every element of every result so far, and uploads fresh data.
  void check() {
    team_.synchronize(stream_);
    std::vector<Element> all(outputs_.bytes() / sizeof(Element));
    team_.device().download(all.data(), outputs_.data(), outputs_.bytes());
    for (std::size_t index = 0; index < results_.size(); ++index) {
      const Element* const got = all.data() + index * static_cast<std::size_t>(total());
      if (!check(results_[index], got)) break;
    }
    // Also after a failure, the next operations start at the first free place: there is none after these results.
    results_.resize(repeated_);
    prepare();
  }

 private:
  static constexpr DType dtype = std::is_same_v<Element, std::int32_t>   ? i32
                                 : std::is_same_v<Element, std::int64_t> ? i64
                                 : std::is_same_v<Element, double>       ? f64
                                                                         : f32;

  struct Plans {
    Plans(const Team& team, Extents extents, const CollectiveOptions& options)
        : gather(team, {.count = extents.large, .dtype = dtype}, options),
          scatter(team, {.count = extents.large, .dtype = dtype}, options),
          reduce(team, {.count = extents.large * team.size(), .dtype = dtype}, options),
          exchange(team, {.count = extents.large, .dtype = dtype}, options),
          broadcast(team, {.count = extents.large * team.size(), .dtype = dtype}, options) {}

    AllGather gather;
    ReduceScatter scatter;
    AllReduce reduce;
    AllToAll exchange;
    Broadcast broadcast;
  };

  struct Result {
    Play play;
    std::uint64_t run;
    std::int64_t count;
    int root;
    std::int64_t elements;
    std::vector<std::int64_t> counts;
  };

  [[nodiscard]] std::int64_t total() const { return extents_.large * team_.size(); }
  [[nodiscard]] static TensorView front(const TensorView& view, std::int64_t count) { return view.narrow(0, 0, count); }

  /// Draws how much each rank sends to each other: up to `most`, nothing in about half of the cases.
  void draw_counts(std::int64_t most) {
    for (int pair = 0; pair < team_.size() * team_.size(); ++pair) {
      const auto drawn = static_cast<std::int64_t>(draws_.below(2 * static_cast<std::uint64_t>(most) + 1));
      counts_.push_back(std::max(drawn - most, std::int64_t{0}));
    }
  }
  [[nodiscard]] static std::int64_t count_of(std::span<const std::int64_t> counts, int ranks, int from, int to) {
    return counts[static_cast<std::size_t>(from * ranks + to)];
  }
  [[nodiscard]] std::int64_t sent() const {
    std::int64_t all = 0;
    for (int to = 0; to < team_.size(); ++to) all += count_of(counts_, team_.size(), team_.rank(), to);
    return all;
  }
  [[nodiscard]] std::int64_t got() const {
    std::int64_t all = 0;
    for (int from = 0; from < team_.size(); ++from) all += count_of(counts_, team_.size(), from, team_.rank());
    return all;
  }

  /// Element i of the input of `rank` to run `run`.
  [[nodiscard]] Element value(std::uint64_t run, int rank, std::int64_t i) const {
    const std::uint64_t bits =
        random_bits(salt_ + run * 131 + static_cast<std::uint64_t>(rank), static_cast<std::uint64_t>(i));
    return static_cast<Element>(bits % 1000000);
  }

  /// Uploads the inputs of the next runs.
  void prepare() {
    std::vector<Element> all;
    all.reserve(inputs_.bytes() / sizeof(Element));
    for (std::uint64_t run = run_; run < run_ + static_cast<std::uint64_t>(runs_) - repeated_; ++run) {
      for (std::int64_t i = 0; i < total(); ++i) all.push_back(value(run, team_.rank(), i));
    }
    team_.device().upload(place(inputs_), all.data(), all.size() * sizeof(Element));
    // Poisons the results, so that one that no run writes is noticed.
    const Stream stream(team_.device());
    team_.device().fill(stream, outputs_.data(), std::byte{0xFF}, outputs_.bytes());
    stream.synchronize();
  }

  // `write` and `keep` are in stream order, so that a run that uses a buffer too early or too late gives wrong results.
  void write(const TensorView& view) {
    team_.device().copy(stream_, {.dst = view.data(), .src = place(inputs_), .bytes = view.bytes()});
  }
  void keep(const TensorView& view) {
    team_.device().copy(stream_, {.dst = place(outputs_), .src = view.data(), .bytes = view.bytes()});
    team_.device().fill(stream_, view.data(), std::byte{0xFF}, view.bytes());  // no peer may still read or write it
  }
  [[nodiscard]] Element* place(const Buffer& buffer) const {
    return buffer.data_as<Element>() + static_cast<std::int64_t>(results_.size()) * total();
  }

  [[nodiscard]] bool check(const Result& result, const Element* got) const {
    for (std::int64_t i = 0; i < result.elements; ++i) {
      const Element wanted = expected(result, i);
      if (got[i] == wanted) continue;
      ADD_FAILURE() << play_names[static_cast<std::size_t>(result.play)] << " of " << result.count << " elements, run "
                    << result.run << ", rank " << team_.rank() << " of " << team_.size() << ": element " << i << " is "
                    << got[i] << ", not " << wanted;
      return false;
    }
    return true;
  }

  [[nodiscard]] Element expected(const Result& result, std::int64_t i) const {
    const std::int64_t count = result.count;
    const auto sum = [&](std::int64_t at) {
      Element all = 0;
      for (int rank = 0; rank < team_.size(); ++rank) all += value(result.run, rank, at);
      return all;
    };
    switch (result.play) {
      case Play::gather:
      case Play::gather_in_place:
      case Play::gather_into_symmetric:
      case Play::gather_by_fetch:
      case Play::gather_in_steps: return value(result.run, static_cast<int>(i / count), i % count);
      case Play::scatter:
      case Play::scatter_by_fetch:
      case Play::scatter_by_push:
      case Play::scatter_symmetric: return sum(team_.rank() * count + i);
      case Play::reduce:
      case Play::reduce_by_fetch:
      case Play::reduce_symmetric: return sum(i);
      case Play::exchange:
      case Play::exchange_by_fetch:
      case Play::exchange_into_symmetric:
        return value(result.run, static_cast<int>(i / count), team_.rank() * count + i % count);
      case Play::exchange_by_counts:
      case Play::exchange_symmetric_by_counts: return sent_by_counts(result, i);
      case Play::broadcast:
      case Play::broadcast_by_fetch:
      case Play::broadcast_symmetric: return value(result.run, result.root, i);
    }
    return {};
  }

  [[nodiscard]] Element sent_by_counts(const Result& result, std::int64_t i) const {
    const auto count = [&](int from, int to) { return count_of(result.counts, team_.size(), from, to); };
    int from = 0;
    for (; i >= count(from, team_.rank()); ++from) i -= count(from, team_.rank());
    for (int to = 0; to < team_.rank(); ++to) i += count(from, to);
    return value(result.run, from, i);
  }

  Team team_;
  Extents extents_;
  int runs_;
  Draws draws_;
  std::uint64_t salt_;
  Stream own_stream_;
  StreamRef stream_;
  Plans plans_;
  ReduceScatter pushing_;
  std::optional<Plans> fetching_;  // none where ranks cannot read each other's memory
  SymmetricTensor symmetric_;
  SymmetricTensor small_symmetric_;
  SymmetricTensor tiny_symmetric_;
  GuardedTensor input_;
  GuardedTensor output_;
  Buffer inputs_;
  Buffer outputs_;
  std::uint64_t run_ = 0;
  std::vector<std::int64_t> counts_;  // of the operation being queued
  std::vector<Result> results_;
  std::size_t repeated_ = 0;  // the first results, which replays produce again
};

}  // namespace tandem::testing
