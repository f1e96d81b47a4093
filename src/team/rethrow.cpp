// SPDX-License-Identifier: Apache-2.0
#include "team/rethrow.hpp"

#include <string>

#include "tandem/base/error.hpp"

#include "base/format.hpp"
#include "team/names.hpp"

namespace tandem {
namespace {

template <typename Kind> [[noreturn]] void rethrow_as(const Kind& error, const Team& team, std::string_view what) {
  const std::string rank = name_own_rank(team);
  if (std::string_view(error.what()).find(rank) != std::string_view::npos) throw;
  throw Kind(format("{} on {}: {}", what, rank, error.what()), error.where());
}

}  // namespace

void rethrow_from(const Team& team, std::string_view what) {
  try {
    throw;
  } catch (const DeviceError& error) {
    rethrow_as(error, team, what);
  } catch (const OutOfMemory& error) {
    rethrow_as(error, team, what);
  } catch (const Unsupported& error) {
    rethrow_as(error, team, what);
  } catch (const InvalidArgument& error) {
    rethrow_as(error, team, what);
  }
}

}  // namespace tandem
