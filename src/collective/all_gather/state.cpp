// SPDX-License-Identifier: Apache-2.0
#include "collective/all_gather/state.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/format.hpp"
#include "collective/algorithm_table.hpp"
#include "collective/engines.hpp"
#include "collective/piece.hpp"
#include "collective/side_stream.hpp"
#include "collective/tuning.hpp"
#include "team/or_abort.hpp"

namespace tandem {
namespace {

constexpr std::array<std::string_view, 6> ways{"push", "staged", "fetch", "mail", "one_kernel", "direct_kernel"};
constexpr std::array<std::string_view, 1> in_steps{"push"};  // the algorithms of runs in steps

// What ranks signal to each other.
constexpr std::uint32_t entered = 0;  // push: my tensor may be written
constexpr std::uint32_t arrived = 1;  // push: my shard is in your tensor; staged: in my slot; fetch: it may be read
constexpr std::uint32_t drained = 2;  // fetch: I have read your shard
constexpr std::uint32_t signals = 3;

}  // namespace

AllGather::State::State(const Team& team, const AllGatherSpec& spec, const CollectiveOptions& options)
    : CollectiveState(team, "AllGather", format("of up to {} {} a rank", spec.count, name(spec.dtype)), spec.dtype,
                      options, ways),
      count_(spec.count),
      started_at_(or_abort(team, "an event", [&] { return Event(team.device()); })),
      coming_(static_cast<std::size_t>(team.size())) {
  expect_count(spec.count);
  const CollectiveTuning& tuning = collective_tuning(device().id().type);
  make_lanes(bytes_up_to(one_kernel_bytes(one_kernel_shard_bytes(tuning, ranks())), spec.count));
  make_meeting(spec.count, ranks() - 1, direct_copy_above(tuning, ranks()));
  const bool staging = options.algorithm == "staged" || (automatic() && !is_always_one_kernel(spec.count));
  make_slots(staging ? bytes_up_to(piece_bytes(), spec.count) : 0, signals, ranks() - 1);
  const bool pushes = options.algorithm == "push" || (automatic() && !is_always_one_kernel(spec.count));
  if (pushes && ranks() > 1 && engines_copy(device())) beside_ = std::make_unique<SideStream>(team);
  everyone_.assign(peers().begin(), peers().end());
  everyone_.push_back(me());
  const std::string batches =
      engines_copy(device())
          ? format(
                "in one batch with one signal (above {0} bytes a shard, this rank's own is copied at the same time, by "
                "engines unless captured; a run in steps signals for each shard, above {0} bytes in rank-rotated "
                "order)",
                batch_bytes())
          : format("in rank-rotated order, with a signal for each shard (in one batch up to {} bytes a shard)",
                   batch_bytes());
  const AlgorithmRow rows[] = {
      algorithm_row(*this, "into symmetric tensors", Tensors::symmetric_output,
                    why_refused(algorithms(Tensors::symmetric_output))),
      algorithm_row(*this, "into plain views", Tensors::plain, why_plain_refused(algorithms(Tensors::plain))),
  };
  describe_algorithms(spec.count, rows,
                      {{"push", "copies into the peers' tensors, " + batches},
                       {"staged", format("copies out of the peers' slots, in pieces of {} bytes", piece_bytes())},
                       {"direct_kernel", "one kernel on each rank stores into the peers' tensors"}},
                      format("copies by {}", copier()));
}

AllGather::State::Way AllGather::State::way(std::size_t bytes, Tensors tensors) const noexcept {
  if (takes_mail(bytes)) return Way::mail;
  const bool symmetric = tensors == Tensors::symmetric_output;
  if (symmetric) {
    const CollectiveTuning& tuning = collective_tuning(device().id().type);
    const std::size_t above = direct_copy_above(tuning, ranks());
    if (takes_direct_kernel(direct_shard_wins(ranks(), bytes, above, tuning.direct_gather_bytes))) {
      return Way::direct_kernel;
    }
  }
  if (takes_one_kernel(bytes)) return Way::one_kernel;
  if (symmetric) return takes_staging(bytes) ? Way::staged : Way::push;
  return takes_fetch(bytes) ? Way::fetch : Way::staged;
}

void AllGather::State::expect_taken(Tensors tensors) const {
  expect_view(tensors != Tensors::symmetric_output, algorithms(tensors));
}

std::string_view AllGather::State::algorithm(std::int64_t count, Tensors tensors) const {
  expect_within(count, count_);
  expect_taken(tensors);
  return ways[static_cast<std::size_t>(way(bytes_of(count), tensors))];
}

Split AllGather::State::split_of(const TensorView& gathered) const {
  const Split whole = split(gathered);
  expect_at_most(whole.full, count_, "a shard");
  return whole;
}

void AllGather::State::expect_closed(StreamRef stream) {
  if (started_ && started_in_ != 0 && started_in_ != capture_of(stream)) started_ = false;
  if (!started_) return;
  team().check();  // a run that a failure left open is not the caller's mistake
  refuse("a run was started while another one is open; finish() ends a run");
}

void AllGather::State::expect_open(StreamRef stream, const char* otherwise) const {
  if (!started_) refuse(otherwise);
  // A captured start() sends its signals when its graph is launched: waits outside that graph do not match them.
  if (started_in_ == capture_of(stream)) return;
  refuse(
      "start() was called in one capture, or in none, and a later step of its run in another; all steps of a run are "
      "captured into one graph, or none of them");
}

void AllGather::State::start(const SymmetricTensor& gathered, StreamRef stream) {
  expect(gathered, "gathered", gathered.sizes().numel());
  open(gathered.memory().data() + bytes_of(split_of(gathered.local()).shard(me()).begin), gathered, stream);
}

void AllGather::State::start(const TensorView& shard, const SymmetricTensor& gathered, StreamRef stream) {
  expect(gathered, "gathered", gathered.sizes().numel());
  const TensorView& local = gathered.local();
  expect_shard(shard, local, "gathered", split_of(local));
  open(rows_of(shard), gathered, stream);
}

void AllGather::State::open(const Rows& shard, const SymmetricTensor& gathered, StreamRef stream) {
  expect_algorithm(in_steps, "a run in steps");
  expect_closed(stream);
  expect_alike(stream, [&] {
    return format("the start of a run of {} into {}", split(gathered.local()).in_words(), named(gathered));
  });
  push(shard, gathered, Awaited::each, stream);
}

void AllGather::State::push(const Rows& shard, const SymmetricTensor& gathered, Awaited shards, StreamRef stream) {
  begin_run(stream, "all_gather");
  const Shard mine = split(gathered.local()).shard(me());
  const std::size_t bytes = bytes_of(mine.count);
  const std::size_t offset = bytes_of(mine.begin);
  std::byte* const own = gathered.memory().data() + offset;
  const bool in_place = (shard.is_dense() && shard.address() == own) || bytes == 0;

  whole_or_failed([&] {
    if (shards == Awaited::each) started_at_.record(stream);
    exchange(stream, entered);
    if (bytes <= batch_bytes() || (shards == Awaited::all && engines_copy(device()))) {
      push_at_once(shard, gathered, in_place, stream);
      slots().signal(stream, 0, in_place ? peers() : std::span<const int>(everyone_), arrived);
      return;
    }
    for (const int peer : peers()) {
      copies().add(gathered.memory().remote(peer) + offset, shard, bytes, Path::link);
      flush(stream);
      slots().signal(stream, 0, std::span(&peer, 1), arrived);
    }
    if (in_place) return;
    copies().add(own, shard, bytes, Path::local);
    flush(stream);
    slots().signal(stream, 0, std::span(&everyone_.back(), 1), arrived);
  });
  std::ranges::fill(coming_, std::uint8_t{1});
  // This rank's own shard has a signal only if it was copied: it may be read on another stream.
  coming_[static_cast<std::size_t>(me())] = in_place ? 0 : 1;
  own_in_place_ = in_place;
  started_ = true;
  started_in_ = capture();
  end(stream);
}

// Engines do the copies of a batch one after the other, so a copy within the GPU would delay those over the links.
void AllGather::State::push_at_once(const Rows& shard, const SymmetricTensor& gathered, bool in_place,
                                    StreamRef stream) {
  const Shard mine = split(gathered.local()).shard(me());
  const std::size_t bytes = bytes_of(mine.count);
  const std::size_t offset = bytes_of(mine.begin);
  const auto send = [&] {
    for (const int peer : peers()) copies().add(gathered.memory().remote(peer) + offset, shard, bytes, Path::link);
  };
  const auto keep = [&] { copies().add(gathered.memory().data() + offset, shard, bytes, Path::local); };
  if (in_place || beside_ == nullptr || bytes <= batch_bytes()) {
    send();
    if (!in_place) keep();
    return flush(stream);
  }
  rejoin_if_thrown(*beside_, stream, [&] {
    beside_->follow(stream);
    keep();
    flush_by_engines(beside_->ref());
    send();
    flush(stream);
    beside_->rejoin(stream);
  });
}

void AllGather::State::wait_shard(int rank, StreamRef stream) {
  if (rank < 0 || rank >= ranks()) {
    refuse(format("the shard of rank {} was waited for; allowed: 0 to {}", rank, ranks() - 1));
  }
  expect_open(stream, "a shard was waited for before start()");
  std::uint8_t& coming = coming_[static_cast<std::size_t>(rank)];
  if (coming == 0 && (rank != me() || !own_in_place_)) {
    refuse(format("the shard of rank {} was waited for twice in one run", rank));
  }
  // Also orders the wait behind those of the run before, on the stream of `start`, which take their counts first.
  started_at_.wait(stream);
  if (coming == 0) return;
  wait(stream, 0, std::span(&rank, 1), arrived);
  coming = 0;
}

void AllGather::State::finish(StreamRef stream) {
  expect_open(stream, "finish() was called without start()");
  started_at_.wait(stream);  // as in wait_shard
  wait_for_rest(stream);
}

void AllGather::State::wait_for_rest(StreamRef stream) {
  std::array<int, max_signals> rest{};
  std::size_t count = 0;
  const auto wait_for_these = [&] {
    if (count == 0) return;
    wait(stream, 0, std::span(rest).first(count), arrived);
    while (count != 0) coming_[static_cast<std::size_t>(rest[--count])] = 0;
  };
  for (const int rank : everyone_) {
    if (coming_[static_cast<std::size_t>(rank)] == 0) continue;
    rest[count++] = rank;
    if (count == rest.size()) wait_for_these();
  }
  wait_for_these();
  started_ = false;
  follow_last(stream);  // follows the pushes, whose source the caller may now overwrite
  end(stream);
}

void AllGather::State::run(const SymmetricTensor& gathered, StreamRef stream) {
  expect(gathered, "gathered", gathered.sizes().numel());
  const Split whole = split_of(gathered.local());
  gather(gathered.memory().data() + bytes_of(whole.shard(me()).begin), gathered, whole, stream);
}

void AllGather::State::run(const TensorView& shard, const SymmetricTensor& gathered, StreamRef stream) {
  expect(gathered, "gathered", gathered.sizes().numel());
  const Split whole = split_of(gathered.local());
  expect_shard(shard, gathered.local(), "gathered", whole);
  gather(rows_of(shard), gathered, whole, stream);
}

void AllGather::State::gather(const Rows& shard, const SymmetricTensor& gathered, const Split& whole,
                              StreamRef stream) {
  expect_taken(Tensors::symmetric_output);
  expect_closed(stream);
  expect_alike(stream, [&] { return format("a run of {} into {}", whole.in_words(), named(gathered)); });
  if (whole.total == 0) return;
  std::byte* const out = gathered.memory().data();
  switch (way(bytes_of(whole.full), Tensors::symmetric_output)) {
    case Way::mail: return run_step(stream, "all_gather", [&] { mail(shard.address(), out, whole, stream); });
    case Way::direct_kernel:
      return run_step(stream, "all_gather", [&] { direct(shard.address(), gathered, whole, stream); });
    case Way::one_kernel:
      return run_steps(stream, "all_gather",
                       [&] { one_kernel(stream, MailedForm::all_gather, shard.address(), out, whole); });
    case Way::staged: return run_steps(stream, "all_gather", [&] { staged(shard, out, whole, stream); });
    case Way::push:
    case Way::fetch:
      push(shard, gathered, Awaited::all, stream);
      return whole_or_failed([&] { wait_for_rest(stream); });
  }
}

void AllGather::State::run(const TensorView& shard, const TensorView& gathered, StreamRef stream) {
  expect_taken(Tensors::plain);
  expect_closed(stream);
  expect(gathered, "gathered", gathered.numel());
  const Split whole = split_of(gathered);
  expect_shard(shard, gathered, "gathered", whole);
  expect_alike(stream, [&] { return format("a run of {} between plain views", whole.in_words()); });
  if (whole.total == 0) return;
  const auto* const from = shard.data_as<const std::byte>();
  auto* const into = gathered.data_as<std::byte>();
  const Way way = this->way(bytes_of(whole.full), Tensors::plain);
  if (way == Way::mail) return run_step(stream, "all_gather", [&] { mail(from, into, whole, stream); });
  run_steps(stream, "all_gather", [&] {
    switch (way) {
      case Way::one_kernel: return one_kernel(stream, MailedForm::all_gather, from, into, whole);
      case Way::fetch: return fetch(from, into, whole, stream);
      default: return staged(rows_of(shard), rows_of(gathered), whole, stream);
    }
  });
}

void AllGather::State::mail(const std::byte* shard, std::byte* gathered, const Split& whole, StreamRef stream) {
  const TraceRange range = traced(stream, TraceKind::communication);
  const std::size_t longest = bytes_of(whole.full);
  for (std::size_t begin = 0; begin < longest; begin += letter_bytes()) {
    const auto bytes_in = [&](const Shard& owned) {
      return bytes_in_piece(begin, bytes_of(owned.count), letter_bytes());
    };
    const Slots::Message message{shard + begin, bytes_in(whole.shard(me()))};
    mail_into(
        stream, [&](int /*peer*/) { return message; }, message.data,
        [&](int rank) {
          const Shard owned = whole.shard(rank);
          return MailPlace{gathered + bytes_of(owned.begin) + begin, bytes_in(owned)};
        });
  }
}

void AllGather::State::direct(const std::byte* shard, const SymmetricTensor& gathered, const Split& whole,
                              StreamRef stream) {
  const Shard mine = whole.shard(me());
  for (const int rank : everyone_) {
    copies().add(gathered.memory().remote(rank) + bytes_of(mine.begin), shard, bytes_of(mine.count),
                 rank == me() ? Path::local : Path::link);
  }
  flush_spread_in_meeting(stream, bytes_of(whole.full));
}

void AllGather::State::fetch(const std::byte* shard, std::byte* gathered, const Split& whole, StreamRef stream) {
  const std::size_t longest = bytes_of(whole.full);
  if (longest == 0) return;
  const Shard mine = whole.shard(me());
  slots().lend(stream, shard, arrived);
  // Each rank reads the same piece of every shard before it goes on to the next piece: then the owner, which also
  // copies it, and the peers find it in a cache, whereas whole shards would be read from memory each time.
  const std::size_t piece = 2 * piece_bytes();
  for (std::size_t begin = 0; begin < longest; begin += piece) {
    const auto bytes_in = [&](const Shard& owned) { return bytes_in_piece(begin, bytes_of(owned.count), piece); };
    copies().add(gathered + bytes_of(mine.begin) + begin, shard + begin, bytes_in(mine), Path::local,
                 bytes_of(mine.count));
    flush(stream);
    for (const int peer : peers()) {
      const Shard theirs = whole.shard(peer);
      if (begin == 0) wait(stream, 0, std::span(&peer, 1), arrived);
      fetch_from(stream, peer, arrived, begin, gathered + bytes_of(theirs.begin) + begin, bytes_in(theirs));
      if (longest - begin <= piece) slots().signal(stream, 0, std::span(&peer, 1), drained);
    }
  }
  wait_all(stream, drained);
}

void AllGather::State::staged(const Rows& shard, const Rows& gathered, const Split& whole, StreamRef stream) {
  const std::size_t longest = bytes_of(whole.full);
  const auto piece_of = [&](int rank, std::size_t begin) {  // size of the piece at `begin` of that rank's shard
    return bytes_in_piece(begin, bytes_of(whole.shard(rank).count), piece_bytes());
  };
  // A rank signals that its piece k + 1 is there only after it has read all of piece k. So before it overwrites a slot,
  // for piece k + 2, all peers have signaled that they have read it: the signals serve as credits.
  open_slots(stream);
  for (std::size_t begin = 0; begin < longest; begin += piece_bytes()) {
    const int slot = slots().next();
    const Rows own = gathered + (bytes_of(whole.shard(me()).begin) + begin);
    if (ranks() > 1) {
      copies().add(slots().local(slot), shard + begin, piece_of(me(), begin), Path::local);
      flush(stream);
      slots().signal(stream, slot, peers(), arrived);
    }
    const auto fetch = [&](int peer) {
      copies().add(gathered + (bytes_of(whole.shard(peer).begin) + begin), slots().remote(slot, peer),
                   piece_of(peer, begin), Path::link);
    };
    if (std::min(longest, piece_bytes()) <= batch_bytes()) {
      wait(stream, slot, peers(), arrived);
      for (const int peer : peers()) fetch(peer);
      copies().add(own, shard + begin, piece_of(me(), begin), Path::local);
      flush(stream);
      continue;
    }
    copies().add(own, shard + begin, piece_of(me(), begin), Path::local);  // while the peers' pieces are on their way
    flush(stream);
    for (const int peer : peers()) {
      wait(stream, slot, std::span(&peer, 1), arrived);
      fetch(peer);
      flush(stream);
    }
  }
}

}  // namespace tandem
