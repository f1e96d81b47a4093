// SPDX-License-Identifier: Apache-2.0
#include "collective/broadcast/state.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <ranges>
#include <string_view>

#include "base/format.hpp"
#include "collective/algorithm_table.hpp"
#include "collective/chunk.hpp"
#include "collective/tuning.hpp"

namespace tandem {
namespace {

constexpr std::array<std::string_view, 7> ways{"push", "pull",       "staged",       "fetch",
                                               "mail", "one_kernel", "direct_kernel"};

// What ranks signal to each other.
constexpr std::uint32_t ready = 0;    // push: my tensor may be written
constexpr std::uint32_t arrived = 1;  // the root's data is in your tensor (push), mine (pull, fetch), my slot (staged)
constexpr std::uint32_t drained = 2;  // pull, fetch: I have read the root's tensor
constexpr std::uint32_t passed = 3;   // push: my share of the root's data is in your tensor
constexpr std::uint32_t signals = 4;

/// The bytes that the `reader`-th rank other than the root passes on, if all do so at once: equal shares.
Shard equal_share(std::size_t bytes, int readers, int reader) noexcept {
  return chunk_of(static_cast<std::int64_t>(bytes), 1, readers, reader);
}

/// The bytes that this rank passes on if the root sends one share after the other: decreasing ones (see left_to_share).
Shard falling_share(std::size_t bytes, int readers, int reader) noexcept {
  const double all = static_cast<double>(bytes) / (1 - left_to_share(readers, readers));
  const auto end_of = [&](int shares) {
    if (shares == readers) return bytes;
    const auto end = static_cast<std::size_t>(all * (1 - left_to_share(readers, shares)));
    return std::min(bytes, end / chunk_multiple * chunk_multiple);
  };
  const std::size_t begin = end_of(reader);
  return {static_cast<std::int64_t>(begin), static_cast<std::int64_t>(end_of(reader + 1) - begin)};
}

/// The index of `rank` among the ranks other than the root, in the order in which the root copies to them.
int reader(int rank, int root, int ranks) noexcept { return (rank - root - 1 + ranks) % ranks; }

/// The widest integer dtype to which all of these addresses and sizes, or-ed together, are aligned. A copy is a
/// reduction of one source, which keeps the bits of integers.
DType widest_integers(std::uintptr_t places_and_bytes) noexcept {
  for (const DType dtype : {i64, i32}) {
    if (places_and_bytes % size_of(dtype) == 0) return dtype;
  }
  return u8;
}

}  // namespace

Broadcast::State::State(const Team& team, const BroadcastSpec& spec, const CollectiveOptions& options)
    : CollectiveState(team, "Broadcast", format("of up to {} {}", spec.count, name(spec.dtype)), spec.dtype, options,
                      ways),
      count_(spec.count),
      pulls_(options.algorithm == "pull" || (automatic() && pull_wins(device().costs()))),
      passed_on_above_(passed_on_above(device().costs(), readers())) {
  expect_count(spec.count);
  const CollectiveTuning& tuning = collective_tuning(device().id().type);
  make_lanes(bytes_up_to(one_kernel_bytes(one_kernel_shard_bytes(tuning, ranks())), spec.count));
  make_meeting(spec.count, readers(), readers() > 1 ? tuning.direct_pass_bytes : direct_copy_above(tuning, ranks()));
  const bool staging = (automatic() && !is_always_one_kernel(spec.count)) || options.algorithm == "staged";
  const std::size_t piece = bytes_up_to(piece_bytes(), spec.count);
  // Fixed for the plan's lifetime: the credits of slots and the meetings, which use none, do not know of each other.
  passes_pieces_on_ = staging && meeting() && readers() > 1 && kernel_may_pass_on(piece);
  make_slots(staging ? piece : 0, signals, readers());
  std::string pushes = "copies of the root's into all others' tensors";
  if (readers() > 1) pushes += format("; above {} bytes each gets a share, and passes it on", passed_on_above_);
  const AlgorithmRow rows[] = {
      algorithm_row(*this, "into symmetric tensors", Tensors::symmetric_output,
                    why_refused(algorithms(Tensors::symmetric_output))),
      algorithm_row(*this, "into plain views", Tensors::plain, why_plain_refused(algorithms(Tensors::plain))),
  };
  describe_algorithms(
      spec.count, rows,
      {{"push", pushes},
       {"pull", "copies of each other rank out of the root's tensor"},
       {"staged", format("through two slots{}, in pieces of {} bytes",
                         passes_pieces_on_ ? ", by direct_kernel's kernel" : " of the root", piece)},
       {"direct_kernel", readers() > 1 ? "one kernel on each rank, which passes a share on"
                                       : "one kernel on each rank, whose root stores into the other's"}},
      format("copies by {}", copier()));
}

void Broadcast::State::run(const SymmetricTensor& tensor, int root, StreamRef stream) {
  expect(tensor, "tensor", tensor.sizes().numel());
  symmetric(tensor.memory().data(), tensor, root, stream);
}

void Broadcast::State::run(const TensorView& input, const SymmetricTensor& out, int root, StreamRef stream) {
  expect_root(root);
  expect(out, "out", out.sizes().numel());
  if (me() == root) {
    expect(input, "input", out.sizes().numel());
    expect_same_or_apart(input, "input", out.local(), "out");
  }
  symmetric(me() == root ? rows_of(input) : nullptr, out, root, stream);
}

bool Broadcast::State::kernel_may_pass_on(std::size_t bytes) const noexcept {
  const std::size_t passed_on = bytes * static_cast<std::size_t>(readers());
  return !options().sms || passed_on <= collective_tuning(device().id().type).direct_gather_bytes;
}

Broadcast::State::Way Broadcast::State::way(std::size_t bytes, Tensors tensors) const noexcept {
  if (takes_mail(bytes)) return Way::mail;
  if (tensors == Tensors::symmetric_output) {
    const CollectiveTuning& tuning = collective_tuning(device().id().type);
    const std::size_t passed_on = bytes * static_cast<std::size_t>(readers());
    const bool passes = passed_on > tuning.direct_pass_bytes && kernel_may_pass_on(bytes);
    const bool stores =
        direct_shard_wins(ranks(), bytes, direct_copy_above(tuning, ranks()), tuning.direct_gather_bytes);
    if (takes_direct_kernel(readers() > 1 ? passes : stores)) return Way::direct_kernel;
  }
  if (takes_one_kernel(bytes)) return Way::one_kernel;
  if (tensors == Tensors::symmetric_output) return pulls_ ? Way::pull : Way::push;
  return takes_fetch(bytes) ? Way::fetch : Way::staged;
}

void Broadcast::State::expect_taken(Tensors tensors) const {
  expect_view(tensors != Tensors::symmetric_output, algorithms(tensors));
}

std::string_view Broadcast::State::algorithm(std::int64_t count, Tensors tensors) const {
  expect_within(count, count_);
  expect_taken(tensors);
  return ways[static_cast<std::size_t>(way(bytes_of(count), tensors))];
}

bool Broadcast::State::run_alike(Way way, const void* input, void* out, std::int64_t count, int root,
                                 StreamRef stream) {
  if (way != Way::mail && way != Way::one_kernel) return false;
  // The other ranks send empty messages, which allow the root to overwrite a mailbox (see MailedExchange).
  parts_.assign(static_cast<std::size_t>(ranks()), {});
  if (me() == root) {
    for (MailedPart& part : parts_) part = {.from = input, .sent = count};
  }
  MailedPart& of_root = parts_[static_cast<std::size_t>(root)];
  of_root.to = out;
  of_root.received = count;
  if (way == Way::mail) {
    run_step(stream, "broadcast", [&] { mail_parts(stream, parts_, count); });
  } else {
    run_steps(stream, "broadcast", [&] { one_kernel(stream, parts_, count); });
  }
  return true;
}

void Broadcast::State::symmetric(const Rows& input, const SymmetricTensor& out, int root, StreamRef stream) {
  expect_taken(Tensors::symmetric_output);
  expect_root(root);
  const std::int64_t count = out.sizes().numel();
  expect_at_most(count, count_, "the tensor");
  expect_alike(stream, [&] { return format("a run of {} elements from root {} into {}", count, root, named(out)); });
  if (count == 0) return;
  const std::size_t bytes = bytes_of(count);
  const Way way = this->way(bytes, Tensors::symmetric_output);
  if (run_alike(way, input.address(), out.memory().data(), count, root, stream)) return;
  if (way == Way::direct_kernel && readers() < 2) {
    return run_step(stream, "broadcast", [&] {
      if (me() == root) write_all(input, out, bytes);
      flush_spread_in_meeting(stream, bytes);
    });
  }
  run_steps(stream, "broadcast", [&] {
    switch (way) {
      case Way::direct_kernel:
        if (me() == root) {
          copies().add(out.memory().data(), input, bytes, Path::local);
          flush(stream);
        }
        return pass_on_in_meeting(bytes, root, stream, [&](int rank) { return out.memory().remote(rank); });
      case Way::pull: return pull(input, out, bytes, root, stream);
      default:
        if (bytes > passed_on_above_) return pass_on(input, out, bytes, root, stream);
        return push(input, out, bytes, root, stream);
    }
  });
}

void Broadcast::State::write_all(const Rows& input, const SymmetricTensor& out, std::size_t bytes) {
  for (const int peer : peers()) copies().add(out.memory().remote(peer), input, bytes, Path::link);
  copies().add(out.memory().data(), input, bytes, Path::local);
}

void Broadcast::State::push(const Rows& input, const SymmetricTensor& out, std::size_t bytes, int root,
                            StreamRef stream) {
  const std::span<const int> only_root(&root, 1);
  if (me() == root) {
    wait_all(stream, ready);
    write_all(input, out, bytes);
    flush(stream);
    signal_all(stream, arrived);
  } else {
    slots().signal(stream, 0, only_root, ready);
    wait(stream, 0, only_root, arrived);
  }
}

void Broadcast::State::pass_on(const Rows& input, const SymmetricTensor& out, std::size_t bytes, int root,
                               StreamRef stream) {
  if (me() == root) {
    wait_all(stream, ready);
    for (const int peer : peers()) {
      const Shard share = falling_share(bytes, readers(), reader(peer, root, ranks()));
      const auto begin = static_cast<std::size_t>(share.begin);
      copies().add(out.memory().remote(peer) + begin, input + begin, static_cast<std::size_t>(share.count), Path::link);
      flush(stream);
      slots().signal(stream, 0, std::span(&peer, 1), arrived);
    }
    copies().add(out.memory().data(), input, bytes, Path::local);
    flush(stream);
    return;  // the other ranks pass on what is already in their tensors
  }
  // First to the ranks that the root has already served: the others still have to receive their own shares.
  others_.clear();
  std::ranges::remove_copy(std::views::reverse(peers()), std::back_inserter(others_), root);
  const Shard share = falling_share(bytes, readers(), reader(me(), root, ranks()));
  signal_all(stream, ready);
  wait(stream, 0, others_, ready);
  wait(stream, 0, std::span(&root, 1), arrived);
  for (const int peer : others_) {
    copies().add(out.memory().remote(peer) + share.begin, out.memory().data() + share.begin,
                 static_cast<std::size_t>(share.count), Path::link);
  }
  flush(stream);
  slots().signal(stream, 0, others_, passed);
  wait(stream, 0, others_, passed);
}

void Broadcast::State::pull(const Rows& input, const SymmetricTensor& out, std::size_t bytes, int root,
                            StreamRef stream) {
  const std::span<const int> only_root(&root, 1);
  if (me() == root) {
    copies().add(out.memory().data(), input, bytes, Path::local);
    flush(stream);
    signal_all(stream, arrived);
    wait_all(stream, drained);
  } else {
    wait(stream, 0, only_root, arrived);
    copies().add(out.memory().data(), out.memory().remote(root), bytes, Path::link);
    flush(stream);
    slots().signal(stream, 0, only_root, drained);
  }
}

template <typename PlaceAt>
void Broadcast::State::pass_on_in_meeting(std::size_t bytes, int root, StreamRef stream, const PlaceAt& place_at) {
  // The root itself has nothing to pass on.
  const Shard share = me() == root ? Shard{} : equal_share(bytes, readers(), reader(me(), root, ranks()));
  const void* const source = place_at(root) + share.begin;
  destinations_.clear();
  if (me() != root) destinations_.push_back(place_at(me()) + share.begin);
  for (const int peer : peers()) {
    if (peer != root) destinations_.push_back(place_at(peer) + share.begin);
  }
  std::uintptr_t together = reinterpret_cast<std::uintptr_t>(source) | bytes;
  for (const void* const place : destinations_) together |= reinterpret_cast<std::uintptr_t>(place);
  const DType words = widest_integers(together);
  const TraceRange range = traced(stream, TraceKind::exchange);
  meeting().reduce(stream,
                   {.sources = std::span(&source, 1),
                    .destinations = destinations_,
                    .count = share.count / static_cast<std::int64_t>(size_of(words)),
                    .dtype = words,
                    .out_dtype = words,
                    .peer_destinations = readers() - 1},
                   static_cast<std::size_t>(equal_share(bytes, readers(), 0).count));
}

void Broadcast::State::run(const TensorView& tensor, int root, StreamRef stream) { run(tensor, tensor, root, stream); }

void Broadcast::State::run(const TensorView& input, const TensorView& out, int root, StreamRef stream) {
  expect_taken(Tensors::plain);
  expect_root(root);
  expect(out, "out", out.numel());
  expect_at_most(out.numel(), count_, "out");
  if (me() == root) {
    expect(input, "input", out.numel());
    expect_same_or_apart(input, "input", out, "out");
  }
  expect_alike(stream,
               [&] { return format("a run of {} elements from root {} between plain views", out.numel(), root); });
  if (out.numel() == 0) return;
  const Way way = this->way(out.bytes(), Tensors::plain);
  if (run_alike(way, input.data(), out.data(), out.numel(), root, stream)) return;
  run_steps(stream, "broadcast", [&] {
    const auto* const from = input.data_as<const std::byte>();
    auto* const into = out.data_as<std::byte>();
    if (way == Way::fetch) {
      fetch(from, into, out.bytes(), root, stream);
    } else if (passes_pieces_on_) {
      staged_in_meetings(me() == root ? rows_of(input) : nullptr, rows_of(out), out.bytes(), root, stream);
    } else {
      staged(me() == root ? rows_of(input) : nullptr, rows_of(out), out.bytes(), root, stream);
    }
  });
}

void Broadcast::State::fetch(const std::byte* input, std::byte* out, std::size_t bytes, int root, StreamRef stream) {
  const std::span<const int> only_root(&root, 1);
  if (me() == root) {
    slots().lend(stream, input, arrived);
    copies().add(out, input, bytes, Path::local);
    flush(stream);
    wait_all(stream, drained);
  } else {
    wait(stream, 0, only_root, arrived);
    fetch_from(stream, root, arrived, 0, out, bytes);
    slots().signal(stream, 0, only_root, drained);
  }
}

void Broadcast::State::staged(const Rows& input, const Rows& out, std::size_t bytes, int root, StreamRef stream) {
  const std::span<const int> only_root(&root, 1);
  for (std::size_t begin = 0; begin < bytes; begin += piece_bytes()) {
    const int slot = slots().next();
    const std::size_t piece = std::min(piece_bytes(), bytes - begin);
    if (me() != root) {
      wait(stream, slot, only_root, arrived);
      copies().add(out + begin, slots().remote(slot, root), piece, Path::link);
      flush(stream);
      slots().grant(stream, slot, only_root);
    } else if (ranks() > 1) {
      slots().take(stream, slot, peers());
      copies().add(slots().local(slot), input + begin, piece, Path::local);
      flush(stream);
      slots().signal(stream, slot, peers(), arrived);
    }
  }
  if (me() == root) {
    copies().add(out, input, bytes, Path::local);
    flush(stream);
  }
}

void Broadcast::State::staged_in_meetings(const Rows& input, const Rows& out, std::size_t bytes, int root,
                                          StreamRef stream) {
  // No rank enters a piece's meeting before it has finished with what the slots held, and none leaves it before all
  // ranks have read and written: so the slots need no credits.
  for (std::size_t begin = 0; begin < bytes; begin += piece_bytes()) {
    const int slot = slots().next();
    const std::size_t piece = std::min(piece_bytes(), bytes - begin);
    if (me() == root) {
      copies().add(slots().local(slot), input + begin, piece, Path::local);
      flush(stream);
    }
    pass_on_in_meeting(piece, root, stream, [&](int rank) { return slots().remote(slot, rank); });
    if (me() == root) continue;
    copies().add(out + begin, slots().local(slot), piece, Path::local);
    flush(stream);
  }
  if (me() == root) {
    copies().add(out, input, bytes, Path::local);
    flush(stream);
  }
}

}  // namespace tandem
