// SPDX-License-Identifier: Apache-2.0
// [errors]
#include <cstdio>

#include "tandem/base/dtype.hpp"
#include "tandem/base/error.hpp"

int main() {
  try {
    const tandem::DType dtype = tandem::parse_dtype("float31");
    std::printf("%zu bytes\n", tandem::size_of(dtype));
  } catch (const tandem::InvalidArgument& error) {
    std::printf("%s\n", error.what());  // names float31, and lists the known dtypes
  }
}
// [/errors]
