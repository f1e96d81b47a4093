// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tandem/memory/signal_pad.hpp"
#include "tandem/memory/symmetric_memory.hpp"
#include "tandem/memory/symmetric_tensor.hpp"

#include "wrong_use/rows.hpp"
#include "wrong_use/support.hpp"

namespace tandem::wrong_use {

const std::vector<Row>& memory_rows() {
  static const std::vector<Row> table{
      {"UnknownBackend",
       1,
       [](World& world) { static_cast<void>(SymmetricMemory::allocate(world.team(), 64, {.backend = "rdma"})); },
       {"symmetric memory on rank {rank} of 1", "'rdma' is not known", "host"}},
      {"NegativeSizes",
       2,
       [](World& world) { static_cast<void>(SymmetricTensor::empty(world.team(), {4, -1}, f32)); },
       {"a symmetric tensor of [4, -1] on rank {rank} of 2", "negative extent"}},
      {"SizesBeyondAllMemory",
       2,
       [](World& world) { static_cast<void>(SymmetricTensor::empty(world.team(), {std::int64_t{1} << 62}, f64)); },
       {"a symmetric tensor of [4611686018427387904] on rank {rank} of 2", "does not fit in 64 bits"}},
      {"NoChannels",
       1,
       [](World& world) { static_cast<void>(SymmetricMemory::allocate(world.team(), 64, {.channels = 0})); },
       {"0 channels", "1 to 4096", "rank {rank}"}},
      {"DifferentSizes",
       2,
       [](World& world) { SymmetricTensor::empty(world.team(), {4 + world.rank()}, f32).rendezvous(); },
       {"rank 0 (", "has f32[4]", "has f32[5]"}},
      {"DifferentDTypes",
       2,
       [](World& world) { SymmetricTensor::empty(world.team(), {4}, world.rank() == 0 ? f32 : i32).rendezvous(); },
       {"rank 0 (", "has f32[4]", "has i32[4]"}},
      {"NoRendezvous",
       1,
       [](World& world) { static_cast<void>(SymmetricTensor::empty(world.team(), {4}, f32).remote(0)); },
       {"before its rendezvous", "rank {rank}"}},
      {"RendezvousTwice",
       2,
       [](World& world) {
         SymmetricTensor x = SymmetricTensor::empty(world.team(), {4}, f32);
         x.rendezvous();
         x.rendezvous();
       },
       {"rendezvous was called twice", "rank {rank}"}},
      {"RemoteOfStranger",
       2,
       [](World& world) {
         SymmetricTensor x = SymmetricTensor::empty(world.team(), {4}, f32);
         x.rendezvous();
         static_cast<void>(x.remote(2));
       },
       {"rank 2", "on rank {rank} of 2"}},
      {"SignalOfStranger",
       2,
       [](World& world) {
         SymmetricTensor x = SymmetricTensor::empty(world.team(), {4}, f32);
         x.rendezvous();
         x.signal_pad().put_signal(stream_of(world), -1, 0);
       },
       {"rank -1", "on rank {rank} of 2"}},
      {"SignalChannel",
       2,
       [](World& world) {
         SymmetricTensor x = SymmetricTensor::empty(world.team(), {4}, f32);
         x.rendezvous();
         x.signal_pad().put_signal(stream_of(world), 0, 16);
       },
       {"channel 16", "0 to 15"}},
      {"BarrierChannel",
       1,
       [](World& world) {
         SymmetricTensor x = SymmetricTensor::empty(world.team(), {4}, f32);
         x.rendezvous();
         x.signal_pad().barrier(stream_of(world), 99);
       },
       {"channel 99", "rank {rank}", "0 to 15"}},
      {"PadNeverMade", 1, [](World& world) { SignalPad().barrier(stream_of(world), 0); }, {"never made", "rendezvous"}},
      {"ContiguousFromTheMiddle",
       2,
       [](World& world) {
         SymmetricTensor x = SymmetricTensor::empty(world.team(), {8}, f32);
         auto* begin = x.local().data_as<float>() + (world.rank() == 1 ? 4 : 0);
         SymmetricTensor part = SymmetricTensor::wrap(world.team(), begin, {4}, f32);
         part.rendezvous();
         static_cast<void>(part.contiguous_view());
       },
       {"on rank {rank}", "rank 1's begins 16 bytes", "wraps from"},
       Kind::unsupported},
      {"WrappedMalloc",
       1,
       [](World& world) { static_cast<void>(SymmetricMemory::wrap(world.team(), memory().data(), 64)); },
       {"symmetric memory on rank {rank} of 1", "64 bytes", "SymmetricTensor::empty"},
       Kind::unsupported},
      {"WrappedMisaligned",
       1,
       [](World& world) {
         auto* bytes = reinterpret_cast<std::byte*>(memory().data());
         static_cast<void>(SymmetricTensor::wrap(world.team(), bytes + 1, {4}, f32));
       },
       {"a symmetric tensor of [4] on rank {rank} of 1", "alignment is 4"}},
      {"NeverMade", 0, alone([] { static_cast<void>(SymmetricMemory().bytes()); }), {"never made"}},
  };
  return table;
}

}  // namespace tandem::wrong_use
