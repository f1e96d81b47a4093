// SPDX-License-Identifier: Apache-2.0
#include "tandem/base/version.hpp"

namespace tandem {

const char* version() noexcept { return TANDEM_VERSION; }

}  // namespace tandem
