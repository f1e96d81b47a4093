// SPDX-License-Identifier: Apache-2.0
#include "tools/peer_copy.hpp"

#include <cstdint>
#include <span>

#include "tandem/device/device.hpp"

#include "tools/local_product.hpp"

namespace tandem::tools {
namespace {

std::size_t peer_bytes(const CollectiveProblem& problem) {
  const bool whole = problem.operation == Operation::broadcast || problem.operation == Operation::all_to_all;
  const std::int64_t elements = whole ? problem.part(0, 0) : problem.shard(0).count;
  return static_cast<std::size_t>(elements) * size_of(problem.dtype);
}

double wire_bytes(const CollectiveProblem& problem) {
  const std::int64_t parts = problem.operation == Operation::all_to_all ? problem.ranks : 1;
  return static_cast<double>(parts * problem.part(0, 0)) * static_cast<double>(size_of(problem.dtype)) *
         bus_factor(problem.operation, problem.ranks);
}

}  // namespace

PeerCopy::PeerCopy(const Team& team, const CollectiveProblem& problem)
    : team_(team),
      bytes_(peer_bytes(problem)),
      wire_bytes_(wire_bytes(problem)),
      memory_(SymmetricMemory::allocate(team, 2 * bytes_)) {
  memory_.rendezvous();
  team.device().upload(memory_.data(), repeated_values(3, static_cast<std::int64_t>(bytes_), u8).data(), bytes_);
  team.barrier();
}

void PeerCopy::operator()(StreamRef stream) const {
  const Copy copy{.dst = memory_.remote((team_.rank() + 1) % team_.size()) + bytes_,
                  .src = memory_.data(),
                  .bytes = bytes_,
                  .path = Path::link};
  team_.device().copy_batch(stream, std::span(&copy, 1));  // a batch uses copy engines, which a single copy may not
}

double PeerCopy::wire_seconds(double seconds) const {
  return bytes_ == 0 ? 0 : seconds * wire_bytes_ / static_cast<double>(bytes_);
}

}  // namespace tandem::tools
