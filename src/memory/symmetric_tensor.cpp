// SPDX-License-Identifier: Apache-2.0
#include "tandem/memory/symmetric_tensor.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "tandem/base/error.hpp"

#include "base/checked.hpp"
#include "base/dtype_check.hpp"
#include "base/format.hpp"
#include "team/names.hpp"
#include "team/rethrow.hpp"

namespace tandem {
namespace {

std::size_t bytes_of(const Dims& sizes, DType dtype) {
  return checked_mul(static_cast<std::size_t>(sizes.numel()), size_of(known_dtype(dtype)));
}

/// Where those elements of `rank`'s part are that `call` copies from or to `local`; InvalidArgument if it may not.
std::byte* place_of(const SymmetricTensor& tensor, std::string_view call, int rank, const TensorView& local,
                    std::int64_t at) {
  std::byte* const part = tensor.memory().remote(rank);
  const TensorView& own = tensor.local();
  const auto refuse = [&](const std::string& why) {
    throw InvalidArgument(
        format("{} was given {} on {}: {}", call, to_string(local), name_own_rank(tensor.team()), why));
  };
  if (local.dtype() != own.dtype()) refuse(format("the symmetric tensor has elements of {}", name(own.dtype())));
  if (local.device() != own.device()) refuse(format("allowed are tensors on {}", to_string(own.device())));
  if (!local.is_dense()) refuse(format("its elements must be contiguous; strides are {}", to_string(local.strides())));
  const std::int64_t count = local.numel();
  if (at < 0 || count > own.numel() || at > own.numel() - count) {
    refuse(format("it does not fit from element {} on: rank {}'s tensor {}{} has {} elements", at, rank,
                  name(own.dtype()), to_string(own.sizes()), own.numel()));
  }
  std::byte* const place = part + static_cast<std::size_t>(at) * size_of(own.dtype());
  const auto begin = reinterpret_cast<std::uintptr_t>(place);
  const auto other = reinterpret_cast<std::uintptr_t>(local.data());
  if (begin < other + local.bytes() && other < begin + local.bytes()) {
    refuse(format("it overlaps the elements of rank {} from element {} on", rank, at));
  }
  return place;
}

void copy_at(const SymmetricTensor& tensor, StreamRef stream, int rank, Copy copy) {
  if (copy.bytes == 0) return;
  if (rank != tensor.team().rank()) copy.path = Path::link;
  tensor.team().device().copy(stream, copy);
}

}  // namespace

SymmetricTensor::SymmetricTensor(SymmetricMemory memory, const Dims& sizes, DType dtype)
    : memory_(std::move(memory)), local_(memory_.data(), sizes, dtype, memory_.team().device().id()) {}

SymmetricTensor SymmetricTensor::empty(const Team& team, const Dims& sizes, DType dtype, const MemoryOptions& options) {
  return or_rethrow(team, format("a symmetric tensor of {}", to_string(sizes)), [&] {
    return SymmetricTensor(SymmetricMemory::allocate(team, bytes_of(sizes, dtype), options), sizes, dtype);
  });
}

SymmetricTensor SymmetricTensor::wrap(const Team& team, void* data, const Dims& sizes, DType dtype,
                                      const MemoryOptions& options) {
  return or_rethrow(team, format("a symmetric tensor of {}", to_string(sizes)), [&] {
    if (reinterpret_cast<std::uintptr_t>(data) % size_of(known_dtype(dtype)) != 0) {
      throw InvalidArgument(
          format("memory at {} was given for {} elements; their alignment is {}", data, name(dtype), size_of(dtype)));
    }
    return SymmetricTensor(SymmetricMemory::wrap(team, data, bytes_of(sizes, dtype), options), sizes, dtype);
  });
}

SymmetricTensor SymmetricTensor::viewed_as(const Dims& sizes, DType dtype) const {
  const std::size_t bytes = bytes_of(sizes, dtype);
  if (bytes > memory_.bytes()) {
    throw InvalidArgument(format("a view as {}{} takes {} bytes, and the symmetric tensor {}{} has {}, on {}",
                                 name(dtype), to_string(sizes), bytes, name(local_.dtype()), to_string(local_.sizes()),
                                 memory_.bytes(), name_own_rank(team())));
  }
  if (reinterpret_cast<std::uintptr_t>(memory_.data()) % size_of(dtype) != 0) {
    throw InvalidArgument(format("memory at {} was to be viewed as {}; its alignment is {}",
                                 static_cast<const void*>(memory_.data()), name(dtype), size_of(dtype)));
  }
  return {memory_, sizes, dtype};
}

void SymmetricTensor::rendezvous() {
  // The memory compares only numbers of bytes, which cannot tell [2, 8] from [4, 4].
  memory_.rendezvous(format("{}{}", name(dtype()), to_string(sizes())));
}

const TensorView& SymmetricTensor::local() const& {
  static_cast<void>(memory_.state());  // throws if there is none
  return local_;
}

TensorView SymmetricTensor::remote(int rank) const { return {memory_.remote(rank), sizes(), dtype(), local_.device()}; }

void SymmetricTensor::put(StreamRef stream, int rank, const TensorView& from, std::int64_t at) const {
  std::byte* const place = place_of(*this, "put", rank, from, at);
  copy_at(*this, stream, rank, {.dst = place, .src = from.data(), .bytes = from.bytes()});
}

void SymmetricTensor::get(StreamRef stream, int rank, const TensorView& to, std::int64_t at) const {
  const std::byte* const place = place_of(*this, "get", rank, to, at);
  copy_at(*this, stream, rank, {.dst = to.data(), .src = place, .bytes = to.bytes()});
}

TensorView SymmetricTensor::contiguous_view() const {
  auto* base = memory_.contiguous();
  Dims strides = local_.strides().prepended(static_cast<std::int64_t>(memory_.contiguous_stride() / size_of(dtype())));
  return {base, sizes().prepended(team().size()), strides, dtype(), local_.device()};
}

}  // namespace tandem
