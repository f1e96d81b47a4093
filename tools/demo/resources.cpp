// SPDX-License-Identifier: Apache-2.0
#include "tools/demo/resources.hpp"

// The assembler puts a file's bytes between two labels. CMake says which file, and builds this again when it changes.
#define TANDEM_EMBED(label, file)     \
  asm(".pushsection .rodata\n" #label \
      ":\n"                           \
      ".incbin \"" file "\"\n" #label \
      "_end:\n"                       \
      ".byte 0\n.popsection\n")

TANDEM_EMBED(tandem_demo_text, TANDEM_DEMO_TEXT);
TANDEM_EMBED(tandem_demo_plot, TANDEM_DEMO_PLOT);

extern "C" {
[[gnu::visibility("hidden")]] extern const char tandem_demo_text[];
[[gnu::visibility("hidden")]] extern const char tandem_demo_text_end[];
[[gnu::visibility("hidden")]] extern const char tandem_demo_plot[];
[[gnu::visibility("hidden")]] extern const char tandem_demo_plot_end[];
}

namespace tandem::tools {

std::string_view default_text() noexcept { return {tandem_demo_text, tandem_demo_text_end}; }
std::string_view plot_script() noexcept { return {tandem_demo_plot, tandem_demo_plot_end}; }

}  // namespace tandem::tools
