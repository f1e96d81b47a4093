// SPDX-License-Identifier: Apache-2.0
// A user's program: it uses Tandem's public headers and tandem::tandem, and nothing else of this repository.
#include <cstdio>
#include <cstring>

#include "tandem/base/dims.hpp"
#include "tandem/base/dtype.hpp"
#include "tandem/base/error.hpp"
#include "tandem/base/version.hpp"
#include "tandem/team/world.hpp"

int main() {
  try {
    if (std::strcmp(tandem::version(), TANDEM_VERSION) != 0) {
      std::fprintf(stderr, "headers of %s, but the library is %s\n", TANDEM_VERSION, tandem::version());
      return 1;
    }
    const tandem::Dims sizes{4, 8};
    if (sizes.numel() != 32 || tandem::size_of(tandem::bf16) != 2) {
      std::fprintf(stderr, "wrong: %s, %zu bytes\n", to_string(sizes).c_str(), tandem::size_of(tandem::bf16));
      return 1;
    }
    try {
      static_cast<void>(tandem::parse_dtype("float31"));
      std::fprintf(stderr, "float31 was taken for a dtype\n");
      return 1;
    } catch (const tandem::InvalidArgument& error) {  // the library's exceptions are caught by their type here
      std::printf("%s\n", error.what());
    }
    const tandem::World world = tandem::init();
    if (world.size() != 1 || world.rank() != 0) {
      std::fprintf(stderr, "rank %d of %d in a process without a launcher\n", world.rank(), world.size());
      return 1;
    }
  } catch (const tandem::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  std::puts("the consumer runs");
  return 0;
}
