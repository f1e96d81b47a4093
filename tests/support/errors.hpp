// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <gtest/gtest.h>
#include <initializer_list>
#include <source_location>
#include <string>

namespace tandem::testing {

/// Fails the test, at the caller's line, unless `text` contains all `parts`.
inline void expect_says(const std::string& text, std::initializer_list<std::string> parts,
                        const std::source_location& where = std::source_location::current()) {
  for (const std::string& part : parts) {
    if (text.find(part) != std::string::npos) continue;
    ADD_FAILURE_AT(where.file_name(), static_cast<int>(where.line())) << "no \"" << part << "\" in: " << text;
  }
}

/// The message of the error that `call` throws, which must be a T.
template <typename T, typename Call>
std::string error_of(const Call& call, const std::source_location& where = std::source_location::current()) {
  const auto failure = [&](const std::string& what) {
    ADD_FAILURE_AT(where.file_name(), static_cast<int>(where.line())) << what;
    return std::string();
  };
  try {
    call();
  } catch (const T& error) {
    return error.what();
  } catch (const std::exception& error) {
    return failure(std::string("another error was thrown: ") + error.what());
  }
  return failure("nothing was thrown");
}

/// `call` must throw a T whose message contains all `parts`.
template <typename T, typename Call>
void expect_error(const Call& call, std::initializer_list<std::string> parts,
                  const std::source_location& where = std::source_location::current()) {
  expect_says(error_of<T>(call, where), parts, where);
}

}  // namespace tandem::testing
