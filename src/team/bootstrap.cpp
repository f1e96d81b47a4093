// SPDX-License-Identifier: Apache-2.0
#include "tandem/team/bootstrap.hpp"

namespace tandem {

Bootstrap::~Bootstrap() = default;

}  // namespace tandem
