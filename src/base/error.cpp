// SPDX-License-Identifier: Apache-2.0
#include "tandem/base/error.hpp"

#include <utility>

namespace tandem {

Error::Error(const std::string& what, std::source_location where) : std::runtime_error(what), where_(where) {}
Timeout::Timeout(const std::string& what, int peer, std::source_location where) : Error(what, where), peer_(peer) {}
PeerLost::PeerLost(const std::string& what, int rank, std::string host, std::int64_t pid, std::source_location where)
    : Error(what, where), rank_(rank), host_(std::move(host)), pid_(pid) {}

// Out of line, as key functions: each type's type information, which `catch` compares across libraries, exists once.
Error::~Error() = default;
InvalidArgument::~InvalidArgument() = default;
Unsupported::~Unsupported() = default;
OutOfMemory::~OutOfMemory() = default;
DeviceError::~DeviceError() = default;
Aborted::~Aborted() = default;
Timeout::~Timeout() = default;
PeerLost::~PeerLost() = default;

}  // namespace tandem
