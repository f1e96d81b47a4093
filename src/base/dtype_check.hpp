// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tandem/base/dtype.hpp"

namespace tandem {

/// `dtype`; throws InvalidArgument for a number that is none, as another language's binding or a file may pass.
DType known_dtype(DType dtype);

}  // namespace tandem
