// SPDX-License-Identifier: Apache-2.0
// Compiled with -fmad=false, like reduce.cu, so that sums are bitwise equal in both.
#include <algorithm>

#include "device/cuda/kernels/mailbox_exchange.cuh"
#include "device/cuda/kernels/mailed_exchange.hpp"
#include "device/cuda/kernels/packet_exchange.cuh"
#include "device/cuda/kernels/table.cuh"

namespace tandem::cuda {
namespace {

constexpr int fewest_threads = 128;  // more than the maximum number of peers: meet_peers needs one each

template <DType dtype> KernelRow mailbox_sum_row() {
  using T = Element<dtype>;
  constexpr int width = 16 / sizeof(T);
  return {dtype, dtype, width, reinterpret_cast<const void*>(&mailbox_sum_kernel<T, width>),
          reinterpret_cast<const void*>(&mailbox_sum_kernel<T, 1>)};
}
template <DType dtype> KernelRow packet_sum_row() {
  using T = Element<dtype>;
  return {dtype, dtype, packed<T>, reinterpret_cast<const void*>(&packet_sum_kernel<T, true>),
          reinterpret_cast<const void*>(&packet_sum_kernel<T, false>)};
}

/// Kernels that only move data are the same for all dtypes of one element size.
template <typename T> KernelRow mailbox_gather_row(DType dtype) {
  constexpr int width = 16 / sizeof(T);
  return {dtype, dtype, width, reinterpret_cast<const void*>(&mailbox_gather_kernel<T, width>),
          reinterpret_cast<const void*>(&mailbox_gather_kernel<T, 1>)};
}
template <typename T> KernelRow packet_gather_row(DType dtype) {
  return {dtype, dtype, packed<T>, reinterpret_cast<const void*>(&packet_gather_kernel<T, true>),
          reinterpret_cast<const void*>(&packet_gather_kernel<T, false>)};
}
template <typename T> KernelRow mailbox_parts_row(DType dtype) {
  constexpr int width = 16 / sizeof(T);
  return {dtype, dtype, width, reinterpret_cast<const void*>(&mailbox_parts_kernel<T, width>),
          reinterpret_cast<const void*>(&mailbox_parts_kernel<T, 1>)};
}
template <typename T> KernelRow packet_parts_row(DType dtype) {
  return {dtype, dtype, packed<T>, reinterpret_cast<const void*>(&packet_parts_kernel<T, true>),
          reinterpret_cast<const void*>(&packet_parts_kernel<T, false>)};
}

const KernelRow mailbox_sums[] = {mailbox_sum_row<f32>(), mailbox_sum_row<f16>(), mailbox_sum_row<bf16>(),
                                  mailbox_sum_row<f64>(), mailbox_sum_row<i32>(), mailbox_sum_row<i64>()};
const KernelRow packet_sums[] = {packet_sum_row<f32>(), packet_sum_row<f16>(), packet_sum_row<bf16>(),
                                 packet_sum_row<f64>(), packet_sum_row<i32>(), packet_sum_row<i64>()};
const KernelRow mailbox_gathers[] = {mailbox_gather_row<std::uint8_t>(u8), mailbox_gather_row<std::uint16_t>(f16),
                                     mailbox_gather_row<std::uint32_t>(f32), mailbox_gather_row<std::uint64_t>(f64)};
const KernelRow packet_gathers[] = {packet_gather_row<std::uint8_t>(u8), packet_gather_row<std::uint16_t>(f16),
                                    packet_gather_row<std::uint32_t>(f32), packet_gather_row<std::uint64_t>(f64)};

const KernelRow mailbox_parts[] = {mailbox_parts_row<std::uint8_t>(u8), mailbox_parts_row<std::uint16_t>(f16),
                                   mailbox_parts_row<std::uint32_t>(f32), mailbox_parts_row<std::uint64_t>(f64)};
const KernelRow packet_parts[] = {packet_parts_row<std::uint8_t>(u8), packet_parts_row<std::uint16_t>(f16),
                                  packet_parts_row<std::uint32_t>(f32), packet_parts_row<std::uint64_t>(f64)};

/// The row for elements of the dtype's size.
template <std::size_t n> const KernelRow* find_mover(const KernelRow (&table)[n], DType dtype) noexcept {
  const KernelRow* found =
      std::find_if(table, table + n, [=](const KernelRow& row) { return size_of(row.in) == size_of(dtype); });
  return found == table + n ? nullptr : found;
}

const KernelRow* kernel_for(MailedForm form, DType dtype, bool in_packets) noexcept {
  switch (form) {
    case MailedForm::all_gather: return find_mover(in_packets ? packet_gathers : mailbox_gathers, dtype);
    case MailedForm::parts: return find_mover(in_packets ? packet_parts : mailbox_parts, dtype);
    default: return find_kernel(in_packets ? packet_sums : mailbox_sums, dtype, dtype);
  }
}

/// `aligned`: all tensors and their shards or parts are 16-byte aligned.
template <typename Arguments>
cudaError_t launch(const KernelRow& kernel, const Arguments& arguments, bool aligned, int lanes, cudaStream_t stream) {
  const bool vector = aligned && arguments.slice % kernel.width == 0;
  // One thread per access of a slice, up to the maximum: a barrier of fewer threads is faster, but more threads keep
  // more loads in flight.
  const std::int64_t accesses =
      std::min(arguments.slice, arguments.length) / (vector || arguments.packet_box != 0 ? kernel.width : 1);
  int threads = fewest_threads;
  while (threads < most_lane_threads && threads < accesses) threads *= 2;
  void* parameters[] = {const_cast<Arguments*>(&arguments)};
  return cudaLaunchKernel(vector ? kernel.vector : kernel.scalar, dim3(static_cast<unsigned>(lanes)),
                          dim3(static_cast<unsigned>(threads)), parameters, 0, stream);
}

}  // namespace

bool can_exchange_mail(MailedForm form, DType dtype) noexcept { return kernel_for(form, dtype, false) != nullptr; }

cudaError_t launch_mailed_exchange(const MailedExchangeArguments& arguments, MailedForm form, DType dtype, int lanes,
                                   cudaStream_t stream) {
  const KernelRow& kernel = *kernel_for(form, dtype, arguments.packet_box != 0);
  const bool aligned = aligned16(arguments.input) && aligned16(arguments.out) && arguments.shard % kernel.width == 0;
  return launch(kernel, arguments, aligned, lanes, stream);
}

cudaError_t launch_mailed_exchange(const MailedPartsArguments& arguments, DType dtype, int lanes, cudaStream_t stream) {
  const bool aligned =
      std::all_of(arguments.parts, arguments.parts + arguments.peer_count + 1, [](const MailedPart& part) {
        return (part.sent == 0 || aligned16(part.from)) && (part.received == 0 || aligned16(part.to));
      });
  return launch(*kernel_for(MailedForm::parts, dtype, arguments.packet_box != 0), arguments, aligned, lanes, stream);
}

cudaError_t load_mailed_exchange_kernels() {
  for (const cudaError_t result :
       {load_kernels(mailbox_sums), load_kernels(packet_sums), load_kernels(mailbox_gathers),
        load_kernels(packet_gathers), load_kernels(mailbox_parts), load_kernels(packet_parts)}) {
    if (result != cudaSuccess) return result;
  }
  return cudaSuccess;
}

}  // namespace tandem::cuda
