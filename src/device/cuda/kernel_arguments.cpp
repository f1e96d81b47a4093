// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/kernel_arguments.hpp"

#include <algorithm>
#include <iterator>

#include "tandem/base/error.hpp"

#include "base/format.hpp"
#include "device/work_check.hpp"

namespace tandem::cuda {

namespace {

Meeting by_value(const MeetingBlocks& blocks, WaitControl* control) {
  Meeting meeting{};
  if (blocks.peers.size() > std::size(meeting.peers)) {
    throw InvalidArgument(format("a meeting with {} peers; at most {}", blocks.peers.size(), std::size(meeting.peers)));
  }
  std::copy(blocks.peers.begin(), blocks.peers.end(), meeting.peers);
  meeting.peer_count = static_cast<std::int32_t>(blocks.peers.size());
  meeting.pitch = blocks.pitch;
  meeting.operation = blocks.operation;
  meeting.control = control;
  return meeting;
}

}  // namespace

SignalArguments arguments_of(std::span<const SignalPut> puts) {
  if (puts.size() > max_signals) {
    throw InvalidArgument(format("{} signals in one call; at most {}", puts.size(), max_signals));
  }
  SignalArguments arguments{};
  std::copy(puts.begin(), puts.end(), arguments.puts);
  arguments.count = static_cast<std::uint32_t>(puts.size());
  return arguments;
}

WaitArguments arguments_of(std::span<const SignalWait> waits, WaitControl* control) {
  if (waits.size() > max_signals) {
    throw InvalidArgument(format("{} waits in one call; at most {}", waits.size(), max_signals));
  }
  WaitArguments arguments{};
  std::copy(waits.begin(), waits.end(), arguments.waits);
  arguments.count = static_cast<std::uint32_t>(waits.size());
  arguments.control = control;
  return arguments;
}

ReduceArguments arguments_of(const Reduction& reduction) {
  check_reduction(reduction);
  if (!can_reduce(reduction.dtype, reduction.out_dtype)) {
    throw Unsupported(format("a reduction of {} into {} on CUDA", name(reduction.dtype), name(reduction.out_dtype)));
  }
  ReduceArguments arguments{};
  std::copy(reduction.sources.begin(), reduction.sources.end(), arguments.sources);
  std::copy(reduction.destinations.begin(), reduction.destinations.end(), arguments.destinations);
  arguments.source_count = static_cast<std::int32_t>(reduction.sources.size());
  arguments.destination_count = static_cast<std::int32_t>(reduction.destinations.size());
  arguments.count = reduction.count;
  arguments.epilogue = {reduction.bias, reduction.columns, reduction.activation};
  return arguments;
}

ReduceInMeetingArguments arguments_of(const Reduction& reduction, const MeetingBlocks& meeting, WaitControl* control) {
  if (reduction.out_dtype != reduction.dtype) {
    throw Unsupported(
        format("a reduction of {} into {} in a meeting", name(reduction.dtype), name(reduction.out_dtype)));
  }
  // From this many blocks times peers on, the links are full without batches, which are then slower. Nor are there any
  // if peers are stored to: too many loads from and stores to peers at once run at a third of the links' rate.
  constexpr std::size_t enough = 128;
  const std::size_t loading = static_cast<std::size_t>(meeting.blocks) * meeting.peers.size();
  return {arguments_of(reduction), by_value(meeting, control), reduction.peer_destinations == 0 && loading < enough};
}

CopyInMeetingArguments arguments_of(std::span<const Copy> copies, const MeetingBlocks& meeting, WaitControl* control) {
  if (copies.size() > max_reduce_operands) {
    throw InvalidArgument(format("{} copies in one meeting; at most {}", copies.size(), max_reduce_operands));
  }
  CopyInMeetingArguments arguments{};
  for (const Copy& copy : copies) {
    if (copy.rows != 1) throw Unsupported(format("a copy of {} rows in a meeting", copy.rows));
    arguments.copies[arguments.copy_count++] = {
        .to = static_cast<std::byte*>(copy.dst), .from = static_cast<const std::byte*>(copy.src), .count = copy.bytes};
  }
  arguments.meeting = by_value(meeting, control);
  return arguments;
}

SpreadInMeetingArguments arguments_of(const Spread& spread, const MeetingBlocks& meeting, WaitControl* control) {
  if (spread.destinations.size() > max_reduce_operands) {
    throw InvalidArgument(
        format("copies to {} places in one meeting; at most {}", spread.destinations.size(), max_reduce_operands));
  }
  SpreadInMeetingArguments arguments{};
  arguments.from = static_cast<const std::byte*>(spread.source);
  for (void* const to : spread.destinations) arguments.to[arguments.to_count++] = static_cast<std::byte*>(to);
  arguments.count = spread.bytes;
  arguments.meeting = by_value(meeting, control);
  return arguments;
}

MailedExchangeArguments arguments_of(const MailedExchange& exchange, WaitControl* control) {
  MailedExchangeArguments arguments{};
  if (exchange.peers.size() > std::size(arguments.peers)) {
    throw InvalidArgument(
        format("an exchange by mail with {} peers; at most {}", exchange.peers.size(), std::size(arguments.peers)));
  }
  if (!can_exchange_mail(exchange.form, exchange.dtype)) {
    throw Unsupported(format("a sum by mail of {} on CUDA", name(exchange.dtype)));
  }
  std::copy(exchange.peers.begin(), exchange.peers.end(), arguments.peers);
  arguments.peer_count = static_cast<std::int32_t>(exchange.peers.size());
  arguments.rank = exchange.rank;
  arguments.input = exchange.input;
  arguments.out = exchange.out;
  arguments.count = exchange.count;
  arguments.shard = exchange.shard;
  arguments.length = exchange.length;
  const std::int64_t own = exchange.rank * exchange.shard;
  arguments.input_begin = exchange.form == MailedForm::all_gather ? own : 0;
  arguments.out_begin = exchange.form == MailedForm::reduce_scatter ? own : 0;
  arguments.epilogue = {exchange.bias, exchange.columns, exchange.activation};
  arguments.slice = exchange.slice;
  arguments.lane_pitch = exchange.lane_pitch;
  arguments.turn_pitch = exchange.turn_pitch;
  arguments.packet_box = exchange.packet_box;
  arguments.gathers = exchange.form == MailedForm::two_shot;
  arguments.operation = exchange.operation;
  arguments.control = control;
  return arguments;
}

MailedPartsArguments parts_arguments_of(const MailedExchange& exchange, WaitControl* control) {
  if (exchange.parts.size() != exchange.peers.size() + 1) {
    throw InvalidArgument(
        format("an exchange by mail of {} parts with {} peers", exchange.parts.size(), exchange.peers.size()));
  }
  MailedPartsArguments arguments{arguments_of(exchange, control), {}};
  std::copy(exchange.parts.begin(), exchange.parts.end(), arguments.parts);
  return arguments;
}

}  // namespace tandem::cuda
