// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <source_location>
#include <stdexcept>
#include <string>

#include "tandem/base/export.hpp"

namespace tandem {

// The constructors are not inherited: nvcc 13.0 fails at inherited ones with such a default argument.

/// Base class of all of Tandem's exceptions. The message says what was requested, what is allowed, and on which rank.
class TANDEM_API Error : public std::runtime_error {
 public:
  explicit Error(const std::string& what, std::source_location where = std::source_location::current());
  Error(const Error&) = default;
  Error& operator=(const Error&) = default;
  ~Error() override;

  /// The source line in Tandem that threw.
  [[nodiscard]] const std::source_location& where() const noexcept { return where_; }

 private:
  std::source_location where_;
};

/// The caller asked for something that can never work: a shape, a dtype, a rank, a name, an option.
class TANDEM_API InvalidArgument : public Error {
 public:
  explicit InvalidArgument(const std::string& what, std::source_location where = std::source_location::current())
      : Error(what, where) {}
  ~InvalidArgument() override;
};

/// The request is valid, but this build, device or machine cannot do it; the message says why.
class TANDEM_API Unsupported : public Error {
 public:
  explicit Unsupported(const std::string& what, std::source_location where = std::source_location::current())
      : Error(what, where) {}
  ~Unsupported() override;
};

/// An allocation failed; the message says how much memory was requested, and where.
class TANDEM_API OutOfMemory : public Error {
 public:
  explicit OutOfMemory(const std::string& what, std::source_location where = std::source_location::current())
      : Error(what, where) {}
  ~OutOfMemory() override;
};

/// A call to the device or its driver failed.
class TANDEM_API DeviceError : public Error {
 public:
  explicit DeviceError(const std::string& what, std::source_location where = std::source_location::current())
      : Error(what, where) {}
  ~DeviceError() override;
};

/// The team was aborted, by this rank or by another one.
class TANDEM_API Aborted : public Error {
 public:
  explicit Aborted(const std::string& what, std::source_location where = std::source_location::current())
      : Error(what, where) {}
  ~Aborted() override;
};

/// A wait reached its deadline. `peer` is the world rank that was waited for, or -1 if it was not a single one.
class TANDEM_API Timeout : public Error {
 public:
  Timeout(const std::string& what, int peer, std::source_location where = std::source_location::current());
  ~Timeout() override;
  [[nodiscard]] int peer() const noexcept { return peer_; }

 private:
  int peer_;
};

/// A rank's process has died, or the rank has ended its world while this one waited for it. Sticky: each later call on
/// a team that the lost rank belonged to fails in the same way.
class TANDEM_API PeerLost : public Error {
 public:
  PeerLost(const std::string& what, int rank, std::string host, std::int64_t pid,
           std::source_location where = std::source_location::current());
  PeerLost(const PeerLost&) = default;
  PeerLost& operator=(const PeerLost&) = default;
  ~PeerLost() override;

  /// World rank, host name and process id of the lost rank.
  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] const std::string& host() const noexcept { return host_; }
  [[nodiscard]] std::int64_t pid() const noexcept { return pid_; }

 private:
  int rank_;
  std::string host_;
  std::int64_t pid_;
};

}  // namespace tandem
