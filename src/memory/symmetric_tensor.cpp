// SPDX-License-Identifier: Apache-2.0
#include "tandem/memory/symmetric_tensor.hpp"

#include <cstdint>
#include <utility>

#include "tandem/base/error.hpp"

#include "base/checked.hpp"
#include "base/dtype_check.hpp"
#include "base/format.hpp"
#include "team/rethrow.hpp"

namespace tandem {
namespace {

std::size_t bytes_of(const Dims& sizes, DType dtype) {
  return checked_mul(static_cast<std::size_t>(sizes.numel()), size_of(known_dtype(dtype)));
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

void SymmetricTensor::rendezvous() {
  // The memory compares only numbers of bytes, which cannot tell [2, 8] from [4, 4].
  memory_.rendezvous(format("{}{}", name(dtype()), to_string(sizes())));
}

const TensorView& SymmetricTensor::local() const& {
  static_cast<void>(memory_.state());  // throws if there is none
  return local_;
}

TensorView SymmetricTensor::remote(int rank) const { return {memory_.remote(rank), sizes(), dtype(), local_.device()}; }

TensorView SymmetricTensor::contiguous_view() const {
  auto* base = memory_.contiguous();
  Dims strides = local_.strides().prepended(static_cast<std::int64_t>(memory_.contiguous_stride() / size_of(dtype())));
  return {base, sizes().prepended(team().size()), strides, dtype(), local_.device()};
}

}  // namespace tandem
