// SPDX-License-Identifier: Apache-2.0
#include "tandem/base/version.hpp"

#include <gtest/gtest.h>
#include <string>

namespace tandem {
namespace {

TEST(Version, OfTheLibraryIsThatOfItsHeaders) {
  EXPECT_STREQ(version(), TANDEM_VERSION);
  EXPECT_EQ(version(), std::to_string(TANDEM_VERSION_MAJOR) + "." + std::to_string(TANDEM_VERSION_MINOR) + "." +
                           std::to_string(TANDEM_VERSION_PATCH));
}

}  // namespace
}  // namespace tandem
