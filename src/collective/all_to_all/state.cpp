// SPDX-License-Identifier: Apache-2.0
#include "collective/all_to_all/state.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/format.hpp"
#include "collective/algorithm_table.hpp"
#include "collective/piece.hpp"
#include "collective/tuning.hpp"

namespace tandem {
namespace {

constexpr std::array<std::string_view, 7> ways{"push", "pull",       "staged",       "fetch",
                                               "mail", "one_kernel", "direct_kernel"};

// What ranks signal to each other.
constexpr std::uint32_t ready = 0;    // push: my tensor may be written; otherwise: it (staged: my slot) may be read
constexpr std::uint32_t arrived = 1;  // push: your part is in your tensor
constexpr std::uint32_t drained = 2;  // pull, fetch: I have read your tensor
constexpr std::uint32_t signals = 3;

}  // namespace

AllToAll::State::State(const Team& team, const AllToAllSpec& spec, const CollectiveOptions& options)
    : CollectiveState(team, "AllToAll", format("of up to {} {} a pair of ranks", spec.count, name(spec.dtype)),
                      spec.dtype, options, ways),
      count_(spec.count),
      parts_(static_cast<std::size_t>(team.size())) {
  expect_count(spec.count);
  const CollectiveTuning& tuning = collective_tuning(device().id().type);
  make_lanes(bytes_up_to(one_kernel_bytes(one_kernel_shard_bytes(tuning, ranks())), spec.count));
  make_meeting(spec.count, ranks() - 1, direct_copy_above(tuning, ranks()));
  const bool staging = (automatic() && !is_always_one_kernel(spec.count)) || options.algorithm == "staged";
  const std::size_t part = bytes_up_to(part_bytes(), spec.count);
  make_slots(staging ? part * static_cast<std::size_t>(ranks()) : 0, signals, 1);
  const AlgorithmRow rows[] = {
      algorithm_row(*this, "into symmetric tensors", Tensors::symmetric_output,
                    why_refused(algorithms(Tensors::symmetric_output))),
      algorithm_row(*this, "out of symmetric tensors", Tensors::symmetric_input,
                    why_refused(algorithms(Tensors::symmetric_input))),
      algorithm_row(*this, "between plain views", Tensors::plain, why_plain_refused(algorithms(Tensors::plain))),
  };
  describe_algorithms(spec.count, rows,
                      {{"push", "copies into the peers' tensors, in rank-rotated order"},
                       {"pull", "copies out of the peers' tensors, in rank-rotated order"},
                       {"staged", format("through two slots, in pieces of {} bytes a rank", part_bytes())},
                       {"direct_kernel", "one kernel on each rank stores into the peers' tensors, or loads from them"}},
                      format("copies by {}", copier()));
}

AllToAll::State::Way AllToAll::State::way(std::size_t bytes, Tensors tensors, bool aligned) const noexcept {
  if (takes_mail(bytes)) return Way::mail;
  if (tensors != Tensors::plain) {
    const CollectiveTuning& tuning = collective_tuning(device().id().type);
    const bool wins =
        aligned && direct_shard_wins(ranks(), bytes, direct_copy_above(tuning, ranks()), tuning.direct_exchange_bytes);
    if (takes_direct_kernel(wins)) return Way::direct_kernel;
  }
  if (takes_one_kernel(bytes)) return Way::one_kernel;
  if (tensors == Tensors::symmetric_output) return Way::push;
  if (tensors == Tensors::symmetric_input) return Way::pull;
  return takes_fetch(bytes) ? Way::fetch : Way::staged;
}

void AllToAll::State::expect_taken(Tensors tensors) const {
  switch (tensors) {
    case Tensors::plain: expect_staging(); return expect_algorithm(algorithms(tensors), "plain views");
    case Tensors::symmetric_input: return expect_algorithm(algorithms(tensors), "a symmetric input and a plain output");
    case Tensors::symmetric_output: return expect_algorithm(algorithms(tensors), "a symmetric output");
  }
}

std::string_view AllToAll::State::algorithm(std::int64_t count, Tensors tensors) const {
  expect_within(count, count_);
  expect_taken(tensors);
  const std::size_t bytes = bytes_of(count);
  return ways[static_cast<std::size_t>(way(bytes, tensors, bytes % vector_bytes == 0))];
}

AllToAll::State::Way AllToAll::State::way(Tensors tensors) const noexcept {
  const bool aligned = meeting() && counts_.divides_by(static_cast<std::int64_t>(vector_bytes / element_bytes()));
  return way(bytes_of(counts_.longest()), tensors, aligned);
}

void AllToAll::State::take_equal(std::int64_t elements) {
  if (elements % ranks() != 0) {
    refuse(format("the tensors have {} elements; equal parts for {} ranks need a multiple", elements, ranks()));
  }
  expect_at_most(elements / ranks(), count_, "a part");
  counts_.assign(ranks(), elements / ranks());
}

void AllToAll::State::take(std::span<const std::int64_t> counts) {
  const auto n = static_cast<std::size_t>(ranks());
  if (counts.size() != n * n) {
    refuse(format("{} counts were given; {} ranks need {}, one for each pair", counts.size(), n, n * n));
  }
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] < 0 || counts[i] > count_) {
      refuse(format("{} elements from rank {} to rank {} were given; this plan is for 0 to {}", counts[i], i / n, i % n,
                    count_));
    }
  }
  counts_.assign(ranks(), counts);
}

void AllToAll::State::expect_room(const SymmetricTensor& tensor, std::string_view argument,
                                  std::int64_t elements) const {
  const std::int64_t room = tensor ? tensor.sizes().numel() : 0;
  expect(tensor, argument, room);
  if (room < elements) {
    refuse(format("{} has room for {} elements; the rank with most needs {}", argument, room, elements));
  }
}

void AllToAll::State::run(const TensorView& input, const SymmetricTensor& out, StreamRef stream) {
  take_equal(input.numel());
  expect(out, "out", input.numel());
  push(input, out, stream);
}

void AllToAll::State::run(const SymmetricTensor& input, const TensorView& out, StreamRef stream) {
  take_equal(out.numel());
  expect(input, "input", out.numel());
  pull(input, out, stream);
}

void AllToAll::State::run(const TensorView& input, const TensorView& out, StreamRef stream) {
  take_equal(input.numel());
  plain(input, out, stream);
}

void AllToAll::State::run(const TensorView& input, const SymmetricTensor& out, std::span<const std::int64_t> counts,
                          StreamRef stream) {
  take(counts);
  std::int64_t most = 0;
  for (int rank = 0; rank < ranks(); ++rank) most = std::max(most, counts_.got(rank));
  expect_room(out, "out", most);
  push(input, out, stream);
}

void AllToAll::State::run(const SymmetricTensor& input, const TensorView& out, std::span<const std::int64_t> counts,
                          StreamRef stream) {
  take(counts);
  std::int64_t most = 0;
  for (int rank = 0; rank < ranks(); ++rank) most = std::max(most, counts_.sent(rank));
  expect_room(input, "input", most);
  pull(input, out, stream);
}

void AllToAll::State::run(const TensorView& input, const TensorView& out, std::span<const std::int64_t> counts,
                          StreamRef stream) {
  take(counts);
  plain(input, out, stream);
}

bool AllToAll::State::run_alike(Way way, const std::byte* input, std::byte* out, StreamRef stream) {
  if (way != Way::mail && way != Way::one_kernel) return false;
  const std::int64_t longest = counts_.longest();
  for (int rank = 0; rank < ranks(); ++rank) {
    parts_[static_cast<std::size_t>(rank)] = {.from = input + bytes_of(counts_.place_in_input(me(), rank)),
                                              .sent = counts_.count(me(), rank),
                                              .to = out + bytes_of(counts_.place_in_out(rank, me())),
                                              .received = counts_.count(rank, me())};
  }
  if (way == Way::mail) {
    run_step(stream, "all_to_all", [&] { mail_parts(stream, parts_, longest); });
  } else {
    run_steps(stream, "all_to_all", [&] { one_kernel(stream, parts_, longest); });
  }
  return true;
}

void AllToAll::State::push(const TensorView& input, const SymmetricTensor& out, StreamRef stream) {
  expect_taken(Tensors::symmetric_output);
  expect(input, "input", counts_.sent(me()));
  expect_apart(input, "input", out.local(), "out");
  expect_alike(stream, [&] { return format("a run of {} into {}", counts_.in_words(), named(out)); });
  const std::size_t longest = bytes_of(counts_.longest());
  if (longest == 0) return;
  const Way way = this->way(Tensors::symmetric_output);
  if (run_alike(way, input.data_as<const std::byte>(), out.memory().data(), stream)) return;
  const bool direct = way == Way::direct_kernel;
  run_steps(stream, "all_to_all", [&] {
    if (!direct) exchange(stream, ready);
    const Rows from = rows_of(input);
    const auto send = [&](int peer, Path path) {
      copies().add(out.memory().remote(peer) + bytes_of(counts_.place_in_out(me(), peer)),
                   from + bytes_of(counts_.place_in_input(me(), peer)), bytes_of(counts_.count(me(), peer)), path);
    };
    for (const int peer : peers()) send(peer, Path::link);
    send(me(), Path::local);
    if (direct) return flush_in_meeting(stream, longest);
    flush(stream);
    exchange(stream, arrived);
  });
}

void AllToAll::State::pull(const SymmetricTensor& input, const TensorView& out, StreamRef stream) {
  expect_taken(Tensors::symmetric_input);
  expect(out, "out", counts_.got(me()));
  expect_apart(input.local(), "input", out, "out");
  expect_alike(stream, [&] { return format("a run of {} out of {}", counts_.in_words(), named(input)); });
  const std::size_t longest = bytes_of(counts_.longest());
  if (longest == 0) return;
  const Way way = this->way(Tensors::symmetric_input);
  if (run_alike(way, input.memory().data(), out.data_as<std::byte>(), stream)) return;
  const bool direct = way == Way::direct_kernel;
  run_steps(stream, "all_to_all", [&] {
    if (!direct) exchange(stream, ready);
    const Rows into = rows_of(out);
    const auto fetch = [&](int peer, Path path) {
      copies().add(into + bytes_of(counts_.place_in_out(peer, me())),
                   input.memory().remote(peer) + bytes_of(counts_.place_in_input(peer, me())),
                   bytes_of(counts_.count(peer, me())), path);
    };
    for (const int peer : peers()) fetch(peer, Path::link);
    fetch(me(), Path::local);
    if (direct) return flush_in_meeting(stream, longest);
    flush(stream);
    exchange(stream, drained);
  });
}

void AllToAll::State::plain(const TensorView& input, const TensorView& out, StreamRef stream) {
  expect_taken(Tensors::plain);
  expect(input, "input", counts_.sent(me()));
  expect(out, "out", counts_.got(me()));
  expect_apart(input, "input", out, "out");
  expect_alike(stream, [&] { return format("a run of {} between plain views", counts_.in_words()); });
  const std::size_t longest = bytes_of(counts_.longest());
  if (longest == 0) return;
  const Way way = this->way(Tensors::plain);
  if (run_alike(way, input.data_as<const std::byte>(), out.data_as<std::byte>(), stream)) return;
  run_steps(stream, "all_to_all", [&] {
    if (way == Way::fetch) {
      fetch(input.data_as<const std::byte>(), out.data_as<std::byte>(), stream);
    } else {
      staged(rows_of(input), rows_of(out), longest, stream);
    }
  });
}

void AllToAll::State::fetch(const std::byte* input, std::byte* out, StreamRef stream) {
  slots().lend(stream, input, ready);
  copies().add(out + bytes_of(counts_.place_in_out(me(), me())), input + bytes_of(counts_.place_in_input(me(), me())),
               bytes_of(counts_.count(me(), me())), Path::local);
  flush(stream);
  for (const int peer : peers()) {
    wait(stream, 0, std::span(&peer, 1), ready);
    fetch_from(stream, peer, ready, bytes_of(counts_.place_in_input(peer, me())),
               out + bytes_of(counts_.place_in_out(peer, me())), bytes_of(counts_.count(peer, me())));
    slots().signal(stream, 0, std::span(&peer, 1), drained);
  }
  wait_all(stream, drained);
}

void AllToAll::State::staged(const Rows& input, const Rows& out, std::size_t longest, StreamRef stream) {
  const std::size_t part = std::min(part_bytes(), longest);
  // A rank signals piece k + 1 only after it has read all of piece k. So before it overwrites a slot, for piece k + 2,
  // all peers have signaled that they have read it: the signals serve as credits.
  open_slots(stream);
  for (std::size_t begin = 0; begin < longest; begin += part) {
    const int slot = slots().next();
    const auto piece_of = [&](int from, int to) {
      return bytes_in_piece(begin, bytes_of(counts_.count(from, to)), part);
    };
    const auto from = [&](int to) { return input + (bytes_of(counts_.place_in_input(me(), to)) + begin); };
    const auto into = [&](int source) { return out + (bytes_of(counts_.place_in_out(source, me())) + begin); };
    for (int rank = 0; rank < ranks(); ++rank) {
      if (rank == me()) continue;
      copies().add(slots().local(slot) + static_cast<std::size_t>(rank) * part, from(rank), piece_of(me(), rank),
                   Path::local);
    }
    flush(stream);
    exchange(stream, slot, ready);
    for (const int peer : peers()) {
      copies().add(into(peer), slots().remote(slot, peer) + static_cast<std::size_t>(me()) * part, piece_of(peer, me()),
                   Path::link);
    }
    copies().add(into(me()), from(me()), piece_of(me(), me()), Path::local);
    flush(stream);
  }
}

}  // namespace tandem
