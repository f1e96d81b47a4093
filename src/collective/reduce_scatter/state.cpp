// SPDX-License-Identifier: Apache-2.0
#include "collective/reduce_scatter/state.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "base/format.hpp"
#include "collective/algorithm_table.hpp"
#include "collective/engines.hpp"
#include "collective/piece.hpp"
#include "collective/tuning.hpp"

namespace tandem {
namespace {

constexpr std::array<std::string_view, 7> ways{"direct",     "staged",        "fetch", "mail",
                                               "one_kernel", "direct_kernel", "push"};

// What ranks signal to each other.
constexpr std::uint32_t ready = 0;    // my input may be read: in my tensor, or a piece in my slot; push: in your slot
constexpr std::uint32_t drained = 1;  // direct, fetch: I have read your tensor
constexpr std::uint32_t signals = 2;

// Of "push", around and beside the sum of a piece, each of one block: one that waits for the piece, or grants its slot;
// one that waits for credits, and in a graph one that signals.
constexpr int blocks_beside_sums = 3;

/// Whether "push" sums a piece while the next one is copied: not where copies take the cores that sum, nor where two
/// streams' kernels would need more SMs than the plan may take.
bool sums_beside_copies(const Device& device, const CollectiveOptions& options) {
  return !device.costs().copies_cost_compute && (!options.sms || *options.sms > blocks_beside_sums);
}

std::string what_is_summed(const ReduceScatterSpec& spec) {
  const DType sums = spec.out_dtype.value_or(spec.dtype);
  return format("of up to {} {} a rank{}", spec.count, name(spec.dtype),
                sums == spec.dtype ? "" : format(", into {}", name(sums)));
}

}  // namespace

ReduceScatter::State::State(const Team& team, const ReduceScatterSpec& spec, const CollectiveOptions& options)
    : CollectiveState(team, "ReduceScatter", what_is_summed(spec), spec.dtype, options, ways),
      count_(spec.count),
      sources_(static_cast<std::size_t>(team.size())) {
  expect_count(spec.count);
  expect_sums();
  expect_staging_for({"push"});
  widen_sums(spec.out_dtype.value_or(spec.dtype));
  const CollectiveTuning& tuning = collective_tuning(device().id().type);
  if (!widens()) {
    make_lanes(bytes_up_to(one_kernel_bytes(one_kernel_shard_bytes(tuning, ranks())), spec.count));
    make_meeting(spec.count, ranks() - 1, tuning.direct_above_bytes);
  }
  const bool on_place = options.algorithm == "direct" || options.algorithm == "direct_kernel";
  const bool staging = !on_place && !is_always_one_kernel(spec.count);
  make_slots(staging ? bytes_up_to(part_bytes(), spec.count) * static_cast<std::size_t>(ranks()) : 0, signals, 1);
  const bool pushes = options.algorithm == "push";
  if (pushes && ranks() > 1 && sums_beside_copies(device(), options)) {
    beside_ = std::make_unique<SideStream>(team);
    leave_sms_beside_sums(blocks_beside_sums);
  }
  const AlgorithmRow rows[] = {
      algorithm_row(*this, "out of symmetric tensors", Tensors::symmetric_input,
                    why_refused(algorithms(Tensors::symmetric_input))),
      algorithm_row(*this, "out of plain views", Tensors::plain, why_plain_refused(algorithms(Tensors::plain))),
  };
  describe_algorithms(spec.count, rows,
                      {{"direct", "one reduction reads all ranks' tensors, between two exchanges of signals"},
                       {"staged", format("through two slots, in pieces of {} bytes a rank", part_bytes())},
                       {"direct_kernel", "one kernel on each rank signals, and reads all ranks' tensors"},
                       {"push", format("copies into the peers' slots, in pieces of {} bytes a rank{}", part_bytes(),
                                       beside_ ? ", each summed while the next is copied" : "")}},
                      format("sums in rank order, in fp32 or wider, by {}{}", summer(),
                             pushes ? format("; copies by {}", copier()) : ""));
}

ReduceScatter::State::Way ReduceScatter::State::way(std::size_t bytes, Tensors tensors) const noexcept {
  if (options().algorithm == "push") return Way::push;
  if (takes_mail(bytes) && !widens()) return Way::mail;
  const bool symmetric = tensors != Tensors::plain;
  if (symmetric && meeting()) {
    const CollectiveTuning& tuning = collective_tuning(device().id().type);
    const bool wins = direct_shard_wins(ranks(), bytes, tuning.direct_above_bytes, tuning.direct_scatter_bytes);
    if (!automatic() || wins) return Way::direct_kernel;
  }
  if (takes_one_kernel(bytes)) return Way::one_kernel;
  if (symmetric) return takes_staging(bytes) ? Way::staged : Way::direct;
  return takes_fetch(bytes) ? Way::fetch : Way::staged;
}

void ReduceScatter::State::expect_taken(Tensors tensors) const {
  expect_view(tensors == Tensors::plain, algorithms(tensors));
}

std::string_view ReduceScatter::State::algorithm(std::int64_t count, Tensors tensors) const {
  expect_within(count, count_);
  expect_taken(tensors);
  return ways[static_cast<std::size_t>(way(bytes_of(count), tensors))];
}

Split ReduceScatter::State::split_of(const TensorView& input) const {
  const Split whole = split(input);
  expect_at_most(whole.full, count_, "a shard");
  return whole;
}

void ReduceScatter::State::expect_sums_fit(const TensorView& shard, const TensorView& input, const Split& whole) const {
  if (!widens()) return expect_shard(shard, input, "input", whole);
  PlanState::expect(shard, "shard", sum_dtype(), whole.shard(me()).count);
  expect_apart(shard, "shard", input, "input");
}

void ReduceScatter::State::run(const SymmetricTensor& input, StreamRef stream) {
  if (widens()) {
    refuse(format("a run in place was asked for; its sums are {}, its input is {}", name(sum_dtype()), name(dtype())));
  }
  expect(input, "input", input.sizes().numel());
  const Split whole = split_of(input.local());
  run_on_symmetric(input, input.memory().data() + bytes_of(whole.shard(me()).begin), whole, stream);
}

void ReduceScatter::State::run(const SymmetricTensor& input, const TensorView& shard, StreamRef stream) {
  expect(input, "input", input.sizes().numel());
  const Split whole = split_of(input.local());
  expect_sums_fit(shard, input.local(), whole);
  run_on_symmetric(input, shard.data(), whole, stream);
}

void ReduceScatter::State::run_on_symmetric(const SymmetricTensor& input, void* shard, const Split& whole,
                                            StreamRef stream) {
  expect_taken(Tensors::symmetric_input);
  expect_alike(stream, [&] { return format("a run of {} of {}", whole.in_words(), named(input)); });
  if (whole.total == 0) return;
  const std::byte* const from = input.memory().data();
  auto* const into = static_cast<std::byte*>(shard);
  const Way way = this->way(bytes_of(whole.full), Tensors::symmetric_input);
  if (way == Way::mail) return run_step(stream, "reduce_scatter", [&] { mail(from, into, whole, stream); });
  if (way == Way::push) return push(from, into, whole, stream);
  if (way == Way::direct_kernel) return run_step(stream, "reduce_scatter", [&] { meet(input, shard, whole, stream); });
  run_steps(stream, "reduce_scatter", [&] {
    if (way == Way::one_kernel) return one_kernel(stream, MailedForm::reduce_scatter, from, into, whole);
    if (way == Way::staged) return staged(from, into, whole, stream);
    const Shard mine = whole.shard(me());
    exchange(stream, ready);
    find_sources(input, mine);
    reduce(stream, sources_, std::span(&shard, 1), mine.count, peers().size());
    exchange(stream, drained);
  });
}

void ReduceScatter::State::find_sources(const SymmetricTensor& input, const Shard& mine) {
  for (int rank = 0; rank < ranks(); ++rank) {
    sources_[static_cast<std::size_t>(rank)] = input.memory().remote(rank) + bytes_of(mine.begin);
  }
}

void ReduceScatter::State::meet(const SymmetricTensor& input, void* shard, const Split& whole, StreamRef stream) {
  const TraceRange range = traced(stream, TraceKind::exchange);
  const Shard mine = whole.shard(me());
  find_sources(input, mine);
  meeting().reduce(stream,
                   {.sources = sources_,
                    .destinations = std::span(&shard, 1),
                    .count = mine.count,
                    .dtype = dtype(),
                    .out_dtype = dtype()},
                   bytes_of(whole.full));
}

void ReduceScatter::State::run(const TensorView& input, const TensorView& shard, StreamRef stream) {
  expect_taken(Tensors::plain);
  expect(input, "input", input.numel());
  const Split whole = split_of(input);
  expect_sums_fit(shard, input, whole);
  expect_alike(stream, [&] { return format("a run of {} between plain views", whole.in_words()); });
  if (input.numel() == 0) return;
  const auto* const from = input.data_as<const std::byte>();
  auto* const into = shard.data_as<std::byte>();
  const Way way = this->way(bytes_of(whole.full), Tensors::plain);
  if (way == Way::push) return push(from, into, whole, stream);
  if (way == Way::mail) return run_step(stream, "reduce_scatter", [&] { mail(from, into, whole, stream); });
  run_steps(stream, "reduce_scatter", [&] {
    switch (way) {
      case Way::one_kernel: return one_kernel(stream, MailedForm::reduce_scatter, from, into, whole);
      case Way::fetch: return fetch(from, into, whole, stream);
      default: return staged(from, into, whole, stream);
    }
  });
}

void ReduceScatter::State::mail(const std::byte* input, std::byte* shard, const Split& whole, StreamRef stream) {
  const TraceRange range = traced(stream, TraceKind::communication);
  const std::size_t longest = bytes_of(whole.full);
  for (std::size_t begin = 0; begin < longest; begin += letter_bytes()) {
    const auto part_of = [&](int rank) {
      const Shard owned = whole.shard(rank);
      return Slots::Message{input + bytes_of(owned.begin) + begin,
                            bytes_in_piece(begin, bytes_of(owned.count), letter_bytes())};
    };
    const Slots::Message mine = part_of(me());
    CollectiveState::mail(stream, part_of, mine.data,
                          {.out = shard + begin, .count = static_cast<std::int64_t>(mine.bytes / element_bytes())});
  }
}

void ReduceScatter::State::fetch(const std::byte* input, std::byte* shard, const Split& whole, StreamRef stream) {
  slots().lend(stream, input, ready);
  wait_all(stream, ready);
  reduce_fetched(stream, ready, input, whole.shard(me()), shard);
  exchange(stream, drained);
}

void ReduceScatter::State::staged(const std::byte* input, std::byte* shard, const Split& whole, StreamRef stream) {
  const Shard mine = whole.shard(me());
  const std::size_t longest = bytes_of(whole.full);
  const std::size_t part = std::min(part_bytes(), longest);
  // A rank signals piece k + 1 only after it has read all of piece k. So before it overwrites a slot, for piece k + 2,
  // all peers have signaled that they have read it: the signals serve as credits.
  open_slots(stream);
  for (std::size_t begin = 0; begin < longest; begin += part) {
    const int slot = slots().next();
    const auto piece_of = [&](int rank) { return bytes_in_piece(begin, bytes_of(whole.shard(rank).count), part); };
    // Parts that are contiguous in both the input and the slot are merged into one copy.
    const auto place_of = [&](int rank) { return static_cast<std::size_t>(rank) * part; };
    for (int rank = 0; rank < ranks(); ++rank) {
      if (rank == me()) continue;
      copies().add(slots().local(slot) + place_of(rank), input + bytes_of(whole.shard(rank).begin) + begin,
                   piece_of(rank), Path::local);
    }
    flush(stream);
    exchange(stream, slot, ready);
    for (int rank = 0; rank < ranks(); ++rank) {
      sources_[static_cast<std::size_t>(rank)] = slots().remote(slot, rank) + place_of(me());
    }
    sources_[static_cast<std::size_t>(me())] = input + bytes_of(mine.begin) + begin;
    void* const to = shard + sum_bytes(begin);
    reduce(stream, sources_, std::span(&to, 1), static_cast<std::int64_t>(piece_of(me()) / element_bytes()),
           peers().size());
  }
}

void ReduceScatter::State::push(const std::byte* input, std::byte* shard, const Split& whole, StreamRef stream) {
  const bool has_pieces = bytes_of(whole.full) > part_bytes();
  if (beside_ == nullptr || !has_pieces) {
    return run_steps(stream, "reduce_scatter", [&] { push_pieces(input, shard, whole, stream, nullptr); });
  }
  begin_run(stream, "reduce_scatter");
  whole_or_failed([&] {
    rejoin_if_thrown(*beside_, stream, [&] { push_pieces(input, shard, whole, stream, beside_.get()); });
    beside_->rejoin(stream);
    end(stream);
  });
}

// A piece is summed behind the copies of the next one, or on a stream of its own beside them. There the sum begins
// behind this rank's copies of the piece, and the copies of the piece after the next, which take the same slot on the
// peers, begin behind the sum.
void ReduceScatter::State::push_pieces(const std::byte* input, std::byte* shard, const Split& whole, StreamRef stream,
                                       SideStream* beside) {
  const std::size_t part = std::min(part_bytes(), bytes_of(whole.full));
  const StreamRef summing = beside != nullptr ? beside->ref() : stream;
  const auto hand_over = [&] {
    if (beside == nullptr) return;
    beside->rejoin(stream);
    beside->follow(stream);
  };
  std::optional<Pushed> last;
  for (std::size_t begin = 0; begin < bytes_of(whole.full); begin += part) {
    if (last) hand_over();
    const Pushed piece{begin, part, slots().next()};
    push_piece(piece, input, whole, stream);
    if (last) sum_piece(*last, input, shard, whole, summing);
    last = piece;
  }
  if (!last) return;
  hand_over();
  sum_piece(*last, input, shard, whole, summing);
}

void ReduceScatter::State::push_piece(const Pushed& piece, const std::byte* input, const Split& whole,
                                      StreamRef stream) {
  slots().take_and_count(stream, piece.slot, peers(), ready);
  for (const int peer : peers()) {
    const Shard theirs = whole.shard(peer);
    copies().add(slots().remote(piece.slot, peer) + piece.place_of(me()), input + bytes_of(theirs.begin) + piece.begin,
                 piece.bytes_of_part(bytes_of(theirs.count)), Path::link);
  }
  flush(stream);
  slots().signal_counted(stream, piece.slot, peers(), ready);
}

void ReduceScatter::State::sum_piece(const Pushed& piece, const std::byte* input, std::byte* shard, const Split& whole,
                                     StreamRef stream) {
  const Shard mine = whole.shard(me());
  wait(stream, piece.slot, peers(), ready);
  for (const int peer : peers()) {
    sources_[static_cast<std::size_t>(peer)] = slots().local(piece.slot) + piece.place_of(peer);
  }
  sources_[static_cast<std::size_t>(me())] = input + bytes_of(mine.begin) + piece.begin;
  void* const to = shard + sum_bytes(piece.begin);
  const std::size_t bytes = piece.bytes_of_part(bytes_of(mine.count));
  reduce(stream, sources_, std::span(&to, 1), static_cast<std::int64_t>(bytes / element_bytes()), 0);
  slots().grant(stream, piece.slot, peers());
}

}  // namespace tandem
