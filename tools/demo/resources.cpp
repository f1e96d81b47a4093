// SPDX-License-Identifier: Apache-2.0
#include "tools/demo/resources.hpp"

#include "tools/embed.hpp"

TANDEM_EMBED(tandem_demo_text, TANDEM_DEMO_TEXT);

extern "C" {
[[gnu::visibility("hidden")]] extern const char tandem_demo_text[];
[[gnu::visibility("hidden")]] extern const char tandem_demo_text_end[];
}

namespace tandem::tools {

std::string_view default_text() noexcept { return {tandem_demo_text, tandem_demo_text_end}; }

}  // namespace tandem::tools
