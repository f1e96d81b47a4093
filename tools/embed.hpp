// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Embeds a file in the program: the assembler places its bytes between two labels, `label` and `label`_end, which the
/// source declares as hidden extern "C" arrays of char. CMake passes the file's path, and recompiles the source when
/// the file changes.
#define TANDEM_EMBED(label, file)     \
  asm(".pushsection .rodata\n" #label \
      ":\n"                           \
      ".incbin \"" file "\"\n" #label \
      "_end:\n"                       \
      ".byte 0\n.popsection\n")
