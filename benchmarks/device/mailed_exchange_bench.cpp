// SPDX-License-Identifier: Apache-2.0
// The time of a small collective in one kernel without a link: the ranks are streams of one GPU, whose kernels run
// concurrently. Over NVLink, the latency of its messages is added. The counter "us" is the time of one of 50 exchanges
// in a CUDA graph; the arguments are the ranks and the bytes of the whole.
#include <benchmark/benchmark.h>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tandem/device/buffer.hpp"
#include "tandem/device/device.hpp"
#include "tandem/device/graph.hpp"
#include "tandem/device/mail.hpp"

#include "base/checked.hpp"
#include "memory/mail_lanes.hpp"
#include "memory/mail_slices.hpp"

namespace {

using namespace tandem;

constexpr std::int64_t exchanges = 50;
constexpr auto most_lanes = static_cast<std::size_t>(MailLanes::most_lanes);
constexpr std::size_t turns = mail_turns;

/// What an exchange of parts does: an all_to_all with a shard for each rank, or a broadcast of the whole from rank 0.
enum class Parts : std::uint8_t { none, all_to_all, broadcast };

void exchange(benchmark::State& state, MailedForm form, bool in_packets, Parts kind = Parts::none) {
  if (device_count(DeviceType::cuda) == 0) {
    state.SkipWithError(why_no_device(DeviceType::cuda).c_str());
    return;
  }
  const auto device = open_device({DeviceType::cuda, 0});
  const auto ranks = static_cast<std::size_t>(state.range(0));
  const auto whole = static_cast<std::size_t>(state.range(1));
  const bool one_shot = form == MailedForm::one_shot || kind == Parts::broadcast;
  const std::size_t shard = round_up((whole + ranks - 1) / ranks, 16);
  const std::size_t length = one_shot ? whole : shard;
  const std::size_t slice = mail_slice_bytes(length, most_lanes);
  const std::size_t packet_box = mailbox_bytes(slice);
  const std::size_t pitch = round_up(packet_box + packet_box_bytes(slice), sizeof(SignalWord));
  const std::size_t rank_pitch = most_lanes * turns * ranks * pitch;
  const Buffer boxes(device, ranks * rank_pitch);
  const Buffer page(device, sizeof(WaitControl));
  const WaitControl control{
      .abort = 0, .departures = 0, .failed = 0, .timeout_ns = 10'000'000'000, .failure = {}, .cut_short = 0, .cut = {}};
  device->upload(page.data(), &control, sizeof control);
  {
    const Stream stream(*device);
    device->fill(stream, boxes.data(), std::byte{0}, boxes.bytes());
    stream.synchronize();
  }
  const auto mailbox = [&](std::size_t owner, std::size_t writer) {
    return reinterpret_cast<SignalWord*>(boxes.data_as<std::byte>() + owner * rank_pitch + writer * pitch);
  };
  std::vector<Stream> streams;
  std::vector<Buffer> memory;
  std::vector<Graph> graphs;
  for (std::size_t me = 0; me < ranks; ++me) {
    const Stream& stream = streams.emplace_back(*device);
    std::vector<PeerWords> peers;
    for (std::size_t peer = 0; peer < ranks; ++peer) {
      if (peer != me) peers.push_back({mailbox(peer, me), mailbox(me, peer), static_cast<std::int32_t>(peer)});
    }
    std::byte* const input = memory.emplace_back(device, shard * ranks).data_as<std::byte>();
    std::byte* const out = memory.emplace_back(device, shard * ranks).data_as<std::byte>();
    const auto elements = [](std::size_t bytes) { return static_cast<std::int64_t>(bytes / size_of(bf16)); };
    std::vector<MailedPart> parts(kind == Parts::none ? 0 : ranks);
    for (std::size_t rank = 0; rank < parts.size(); ++rank) {
      if (kind == Parts::all_to_all) {
        parts[rank] = {input + rank * shard, elements(shard), out + rank * shard, elements(shard)};
      } else {
        const std::int64_t sent = me == 0 ? elements(whole) : 0;
        const std::int64_t received = rank == 0 ? elements(whole) : 0;
        parts[rank] = {input, sent, out, received};
      }
    }
    const MailedExchange each{.form = form,
                              .input = input,
                              .out = out,
                              .count = elements(one_shot ? whole : shard * ranks),
                              .shard = one_shot ? 0 : elements(shard),
                              .length = elements(length),
                              .parts = parts,
                              .dtype = bf16,
                              .peers = peers,
                              .rank = static_cast<std::int32_t>(me),
                              .slice = elements(slice),
                              .lane_pitch = turns * ranks * pitch,
                              .turn_pitch = ranks * pitch,
                              .packet_box = in_packets ? packet_box : 0,
                              .operation = 0};
    graphs.emplace_back(*device, stream, [&] {
      for (std::int64_t i = 0; i < exchanges; ++i) {
        device->mailed_exchange(stream, each, page.data_as<WaitControl>());
      }
    });
  }
  for (auto _ : state) {
    for (std::size_t me = 0; me < ranks; ++me) graphs[me].launch(streams[me]);
    for (const Stream& stream : streams) stream.synchronize();
  }
  state.counters["us"] = benchmark::Counter(static_cast<double>(state.iterations() * exchanges) * 1e-6,
                                            benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void sizes(benchmark::internal::Benchmark* each) {
  each->ArgsProduct({{2, 4}, {1 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 8 << 20}})->UseRealTime();
}
void small_sizes(benchmark::internal::Benchmark* each) {
  each->ArgsProduct({{2, 4}, {1 << 10, 16 << 10, 64 << 10, 256 << 10}})->UseRealTime();
}
BENCHMARK_CAPTURE(exchange, one_shot, MailedForm::one_shot, false)->Apply(sizes);
BENCHMARK_CAPTURE(exchange, two_shot, MailedForm::two_shot, false)->Apply(sizes);
BENCHMARK_CAPTURE(exchange, reduce_scatter, MailedForm::reduce_scatter, false)->Apply(sizes);
BENCHMARK_CAPTURE(exchange, all_gather, MailedForm::all_gather, false)->Apply(sizes);
BENCHMARK_CAPTURE(exchange, all_to_all, MailedForm::parts, false, Parts::all_to_all)->Apply(sizes);
BENCHMARK_CAPTURE(exchange, broadcast, MailedForm::parts, false, Parts::broadcast)->Apply(sizes);
BENCHMARK_CAPTURE(exchange, one_shot_in_packets, MailedForm::one_shot, true)->Apply(small_sizes);
BENCHMARK_CAPTURE(exchange, two_shot_in_packets, MailedForm::two_shot, true)->Apply(small_sizes);
BENCHMARK_CAPTURE(exchange, reduce_scatter_in_packets, MailedForm::reduce_scatter, true)->Apply(small_sizes);
BENCHMARK_CAPTURE(exchange, all_gather_in_packets, MailedForm::all_gather, true)->Apply(small_sizes);
BENCHMARK_CAPTURE(exchange, all_to_all_in_packets, MailedForm::parts, true, Parts::all_to_all)->Apply(small_sizes);
BENCHMARK_CAPTURE(exchange, broadcast_in_packets, MailedForm::parts, true, Parts::broadcast)->Apply(small_sizes);

}  // namespace

BENCHMARK_MAIN();
