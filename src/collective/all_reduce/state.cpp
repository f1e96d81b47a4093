// SPDX-License-Identifier: Apache-2.0
#include "collective/all_reduce/state.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/format.hpp"
#include "collective/algorithm_table.hpp"
#include "collective/tuning.hpp"

namespace tandem {
namespace {

constexpr std::array<std::string_view, 8> ways{
    "one_shot", "two_shot", "fetch", "mail", "one_kernel", "one_kernel_two_shot", "direct_kernel", "copy"};
constexpr std::span askable = std::span(ways).first<7>();  // a team of one copies, whatever was asked for

constexpr int fetch_rounds = 2;  // of inputs, then of sums

// What ranks signal to each other.
constexpr std::uint32_t ready = 0;    // my input may be read (in place: and my output written)
constexpr std::uint32_t reduced = 1;  // my chunk's sum is in all outputs, in my slot, or (fetch) in my output
constexpr std::uint32_t drained = 2;  // I have read your tensor
constexpr std::uint32_t signals = 3;

}  // namespace

AllReduce::State::State(const Team& team, const AllReduceSpec& spec, const CollectiveOptions& options)
    : CollectiveState(team, "AllReduce", format("of up to {} {}", spec.count, name(spec.dtype)), spec.dtype, options,
                      askable),
      count_(spec.count),
      sources_(static_cast<std::size_t>(team.size())),
      destinations_(static_cast<std::size_t>(team.size())) {
  expect_count(spec.count);
  expect_staging_for({"one_shot"});
  expect_sums();
  const CollectiveTuning& tuning = collective_tuning(device().id().type);
  const std::size_t most = one_kernel_bytes(tuning.one_kernel_bytes);
  const std::size_t whole = bytes_up_to(most, spec.count);
  const std::size_t one_step = std::min(whole, one_step_up_to(tuning, ranks()));
  make_lanes(options.algorithm == "one_kernel" ? whole
                                               : std::max(automatic() ? one_step : 0, kernel_chunk(whole, ranks())));
  // A small message's chunks are rounded up, and the slot holds the fetched ones next to each other.
  const std::size_t slot = bytes_up_to(piece_bytes(), spec.count) + static_cast<std::size_t>(ranks()) * chunk_multiple;
  const bool always_one_kernel = lanes().bytes() != 0 && (!automatic() || bytes_up_to(most + 1, spec.count) <= most);
  make_meeting(spec.count, 1, direct_all_reduce_above(tuning, ranks()));
  make_slots(always_one_kernel || options.algorithm == "direct_kernel" ? 0 : slot, signals, ranks() - 1);
  const AlgorithmRow rows[] = {
      algorithm_row(*this, "into symmetric tensors", Tensors::symmetric_output,
                    why_refused(algorithms(Tensors::symmetric_output))),
      algorithm_row(*this, "out of symmetric tensors", Tensors::symmetric_input,
                    why_plain_refused(algorithms(Tensors::symmetric_input))),
      algorithm_row(*this, "between plain views", Tensors::plain, why_plain_refused(algorithms(Tensors::plain))),
  };
  const std::string staging = format("plain views through two slots, in pieces of {} bytes", piece_bytes());
  describe_algorithms(spec.count, rows,
                      {{"one_shot", "each rank reads all ranks' data, and sums it whole; " + staging},
                       {"two_shot", "each rank sums its chunk, which the others get; " + staging},
                       {"one_kernel_two_shot", "that in one kernel on each rank, through mailboxes"},
                       {"direct_kernel", "that in one kernel on each rank, on the peers' tensors"},
                       {"copy", "one rank has nobody to add: its input is copied, or in place left as it is"}},
                      format("sums in rank order, in fp32 or wider, by {}", summer()));
}

AllReduce::State::Way AllReduce::State::way(std::int64_t count, Tensors tensors) const noexcept {
  const std::size_t bytes = bytes_of(count);
  if (ranks() == 1) return Way::copy;
  if (takes_mail(bytes)) return Way::mail;
  if (tensors == Tensors::plain && takes_fetch(bytes_of(chunk(count, 0).count), fetch_rounds)) return Way::fetch;
  const CollectiveTuning& tuning = collective_tuning(device().id().type);
  const bool wins = !automatic() || bytes > direct_all_reduce_above(tuning, ranks());
  if (tensors == Tensors::symmetric_output && meeting() && wins) return Way::direct_kernel;
  const int steps = kernel_steps(count);
  if (steps != 0) return steps == 1 ? Way::one_kernel : Way::one_kernel_two_shot;
  return takes_one_shot(count, tensors) ? Way::one_shot : Way::two_shot;
}

void AllReduce::State::expect_taken(Tensors tensors) const {
  switch (tensors) {
    case Tensors::plain: expect_algorithm(algorithms(tensors), "two plain views"); break;
    case Tensors::symmetric_input:
      expect_algorithm(algorithms(tensors), "a symmetric input with a plain output");
      break;
    case Tensors::symmetric_output: return expect_algorithm(algorithms(tensors), "a symmetric tensor");
  }
  expect_staging();
}

std::string_view AllReduce::State::algorithm(std::int64_t count, Tensors tensors) const {
  expect_within(count, count_);
  expect_taken(tensors);
  return ways[static_cast<std::size_t>(way(count, tensors))];
}

bool AllReduce::State::takes_one_shot(std::int64_t count, Tensors tensors) const noexcept {
  if (!automatic()) return options().algorithm == "one_shot";
  if (!options().staging) return false;
  const bool symmetric = tensors == Tensors::symmetric_output;
  return one_shot_wins(collective_tuning(device().id().type), ranks(), bytes_of(count), symmetric);
}

int AllReduce::State::kernel_steps(std::int64_t count) const noexcept {
  if (lanes().bytes() == 0) return 0;
  if (options().algorithm == "one_kernel") return 1;
  if (options().algorithm == "one_kernel_two_shot") return 2;
  const CollectiveTuning& tuning = collective_tuning(device().id().type);
  const std::size_t bytes = bytes_of(count);
  if (!automatic() || bytes > one_kernel_bytes(tuning.one_kernel_bytes)) return 0;
  return bytes <= one_step_up_to(tuning, ranks()) ? 1 : 2;
}

void AllReduce::State::run(const SymmetricTensor& tensor, StreamRef stream) { run(tensor, tensor, stream); }

void AllReduce::State::run(const SymmetricTensor& input, const SymmetricTensor& out, StreamRef stream) {
  expect_taken(Tensors::symmetric_output);
  const std::int64_t count = input.sizes().numel();
  expect(input, "input", count);
  expect(out, "out", count);
  expect_same_or_apart(input.local(), "input", out.local(), "out");
  expect_at_most(count, count_, "input");
  expect_alike(stream, [&] { return format("a run of {} elements, {} into {}", count, named(input), named(out)); });
  if (count == 0) return;
  const Way way = this->way(count, Tensors::symmetric_output);
  if (way == Way::mail) return mail(input.memory().data(), out.memory().data(), count, stream);
  run_steps(stream, "all_reduce", [&] {
    if (run_alike(way, input.memory().data(), out.memory().data(), count, stream)) return;
    in_place(way, input, out, count, stream);
  });
}

void AllReduce::State::run(const TensorView& input, const SymmetricTensor& out, StreamRef stream) {
  expect_taken(Tensors::symmetric_output);
  const std::int64_t count = input.numel();
  expect(input, "input", count);
  expect(out, "out", count);
  expect_same_or_apart(input, "input", out.local(), "out");
  expect_at_most(count, count_, "input");
  expect_alike(stream, [&] { return format("a run of {} elements, a plain view into {}", count, named(out)); });
  if (count == 0) return;
  const auto* const from = input.data_as<const std::byte>();
  const Way way = this->way(count, Tensors::symmetric_output);
  if (way == Way::mail) return mail(from, out.memory().data(), count, stream);
  run_steps(stream, "all_reduce", [&] {
    if (run_alike(way, from, out.memory().data(), count, stream)) return;
    copies().add(out.memory().data(), from, input.bytes(), Path::local);
    flush(stream);
    in_place(way, out, out, count, stream);
  });
}

void AllReduce::State::run(const SymmetricTensor& input, const TensorView& out, StreamRef stream) {
  expect_taken(Tensors::symmetric_input);
  const std::int64_t count = out.numel();
  expect(out, "out", count);
  expect(input, "input", count);
  expect_same_or_apart(input.local(), "input", out, "out");
  expect_at_most(count, count_, "out");
  expect_alike(stream, [&] { return format("a run of {} elements, {} into a plain view", count, named(input)); });
  if (count == 0) return;
  auto* const to = out.data_as<std::byte>();
  const Way way = this->way(count, Tensors::symmetric_input);
  if (way == Way::mail) return mail(input.memory().data(), to, count, stream);
  run_steps(stream, "all_reduce", [&] {
    if (run_alike(way, input.memory().data(), to, count, stream)) return;
    exchange(stream, ready);
    two_shot(nullptr, &input, to, count, stream);
    exchange(stream, drained);
  });
}

void AllReduce::State::run(const TensorView& input, const TensorView& out, StreamRef stream) {
  expect_taken(Tensors::plain);
  const std::int64_t count = input.numel();
  expect(input, "input", count);
  expect(out, "out", count);
  expect_same_or_apart(input, "input", out, "out");
  expect_at_most(count, count_, "input");
  expect_alike(stream, [&] { return format("a run of {} elements between plain views", count); });
  if (count == 0) return;
  const auto* const from = input.data_as<const std::byte>();
  auto* const to = out.data_as<std::byte>();
  const Way way = this->way(count, Tensors::plain);
  if (way == Way::mail) return mail(from, to, count, stream);
  run_steps(stream, "all_reduce", [&] {
    if (run_alike(way, from, to, count, stream)) return;
    if (way == Way::fetch) return fetch(from, to, count, stream);
    two_shot(from, nullptr, to, count, stream);
  });
}

void AllReduce::State::in_place(Way way, const SymmetricTensor& input, const SymmetricTensor& out, std::int64_t count,
                                StreamRef stream) {
  const Shard mine = chunk(count, me());
  for (int rank = 0; rank < ranks(); ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    sources_[r] = input.memory().remote(rank) + bytes_of(mine.begin);
    destinations_[r] = out.memory().remote(rank) + bytes_of(mine.begin);
  }
  if (way == Way::direct_kernel) {
    const TraceRange range = traced(stream, TraceKind::exchange);
    meeting().reduce(stream,
                     {.sources = sources_,
                      .destinations = destinations_,
                      .count = mine.count,
                      .dtype = dtype(),
                      .out_dtype = dtype(),
                      .peer_destinations = ranks() - 1},
                     bytes_of(chunk(count, 0).count));
    return;
  }
  exchange(stream, ready);
  reduce(stream, sources_, destinations_, mine.count, 2 * peers().size(), peers().size());
  exchange(stream, reduced);
}

bool AllReduce::State::run_alike(Way way, const std::byte* input, std::byte* out, std::int64_t count,
                                 StreamRef stream) {
  switch (way) {
    case Way::copy:
      copies().add(out, input, bytes_of(count), Path::local);
      flush(stream);
      return true;
    case Way::one_kernel:
    case Way::one_kernel_two_shot: one_kernel(input, out, count, way == Way::one_kernel ? 1 : 2, stream); return true;
    case Way::one_shot: one_shot(input, out, count, stream); return true;
    default: return false;
  }
}

void AllReduce::State::mail(const std::byte* input, std::byte* out, std::int64_t count, StreamRef stream) {
  run_step(stream, "all_reduce", [&] {
    const TraceRange range = traced(stream, TraceKind::communication);
    const auto longest = static_cast<std::int64_t>(letter_bytes() / element_bytes());
    for (std::int64_t begin = 0; begin < count; begin += longest) {
      const std::int64_t elements = std::min(longest, count - begin);
      const Slots::Message message{input + bytes_of(begin), bytes_of(elements)};
      CollectiveState::mail(stream, [&](int /*peer*/) { return message; }, message.data,
                            {.out = out + bytes_of(begin), .count = elements});
    }
  });
}

void AllReduce::State::one_kernel(const std::byte* input, std::byte* out, std::int64_t count, int steps,
                                  StreamRef stream) {
  const auto longest = static_cast<std::int64_t>(lanes().bytes() / element_bytes());
  const std::int64_t most = steps == 1 ? longest : longest * ranks();
  for (std::int64_t begin = 0; begin < count; begin += most) {
    const std::int64_t elements = std::min(most, count - begin);
    const auto shard = static_cast<std::int64_t>(kernel_chunk(bytes_of(elements), ranks()) / element_bytes());
    const TraceRange range = traced(stream, TraceKind::exchange);
    lanes().exchange(stream, {.form = steps == 1 ? MailedForm::one_shot : MailedForm::two_shot,
                              .input = input + bytes_of(begin),
                              .out = out + bytes_of(begin),
                              .count = elements,
                              .shard = steps == 1 ? 0 : shard,
                              .length = steps == 1 ? elements : shard,
                              .dtype = dtype()});
  }
}

// In one_shot and two_shot a rank signals in piece k + 1 only after it has read all of piece k. So before it overwrites
// a slot, for piece k + 2, all peers have signaled that they have read it: the signals serve as credits.

void AllReduce::State::one_shot(const std::byte* input, std::byte* out, std::int64_t count, StreamRef stream) {
  const auto piece = static_cast<std::int64_t>(piece_bytes() / element_bytes());
  open_slots(stream);
  for (std::int64_t begin = 0; begin < count; begin += piece) {
    const int slot = slots().next();
    const std::int64_t elements = std::min(piece, count - begin);
    if (ranks() > 1) {
      copies().add(slots().local(slot), input + bytes_of(begin), bytes_of(elements), Path::local);
      flush(stream);
    }
    exchange(stream, slot, ready);
    for (int rank = 0; rank < ranks(); ++rank) sources_[static_cast<std::size_t>(rank)] = slots().remote(slot, rank);
    sources_[static_cast<std::size_t>(me())] = input + bytes_of(begin);
    void* const to = out + bytes_of(begin);
    reduce(stream, sources_, std::span(&to, 1), elements, peers().size());
  }
}

void AllReduce::State::two_shot(const std::byte* input, const SymmetricTensor* symmetric, std::byte* out,
                                std::int64_t count, StreamRef stream) {
  const auto piece = static_cast<std::int64_t>(piece_bytes() / element_bytes());
  open_slots(stream);
  for (std::int64_t begin = 0; begin < count; begin += piece) {
    const int slot = slots().next();
    const std::int64_t elements = std::min(piece, count - begin);
    const Shard mine = chunk(elements, me());
    const std::size_t at = bytes_of(mine.begin);
    if (symmetric != nullptr) {
      for (int rank = 0; rank < ranks(); ++rank) {
        sources_[static_cast<std::size_t>(rank)] = symmetric->memory().remote(rank) + bytes_of(begin) + at;
      }
    } else {
      // This rank's own chunk is not staged, since no peer reads it.
      const std::size_t behind = at + bytes_of(mine.count);
      const std::byte* const from = input + bytes_of(begin);
      copies().add(slots().local(slot), from, at, Path::local);
      copies().add(slots().local(slot) + behind, from + behind, bytes_of(elements) - behind, Path::local);
      flush(stream);
      exchange(stream, slot, ready);
      for (int rank = 0; rank < ranks(); ++rank) {
        sources_[static_cast<std::size_t>(rank)] = slots().remote(slot, rank) + at;
      }
      sources_[static_cast<std::size_t>(me())] = from + at;
    }
    const std::array<void*, 2> to{out + bytes_of(begin) + at, slots().local(slot) + at};
    reduce(stream, sources_, std::span(to).first(ranks() > 1 ? 2 : 1), mine.count, peers().size());
    exchange(stream, slot, reduced);
    for (const int peer : peers()) {
      const Shard theirs = chunk(elements, peer);
      const std::size_t place = bytes_of(theirs.begin);
      copies().add(out + bytes_of(begin) + place, slots().remote(slot, peer) + place, bytes_of(theirs.count),
                   Path::link);
    }
    flush(stream);
  }
}

void AllReduce::State::fetch(const std::byte* input, std::byte* out, std::int64_t count, StreamRef stream) {
  const Shard mine = chunk(count, me());
  slots().lend(stream, input, ready);
  wait_all(stream, ready);
  reduce_fetched(stream, ready, input, mine, out + bytes_of(mine.begin));
  slots().lend(stream, out, reduced);
  for (const int peer : peers()) {
    // The signal also says that the peer has read its chunk of this rank's input, which may be `out`.
    wait(stream, 0, std::span(&peer, 1), reduced);
    const Shard theirs = chunk(count, peer);
    fetch_from(stream, peer, reduced, bytes_of(theirs.begin), out + bytes_of(theirs.begin), bytes_of(theirs.count));
    slots().signal(stream, 0, std::span(&peer, 1), drained);
  }
  wait_all(stream, drained);
}

}  // namespace tandem
