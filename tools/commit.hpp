// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace tandem::tools {

/// The commit that this command line was built from, such as "d1e2d61", or "d1e2d61-dirty" if files differed from it;
/// empty if the sources were not in a git checkout.
[[nodiscard]] const char* commit() noexcept;

}  // namespace tandem::tools
