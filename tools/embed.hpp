// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Puts a file into the program: the assembler sets its bytes between two labels, `label` and `label`_end, which the
/// source declares as hidden extern "C" arrays of char. CMake says which file, and builds the source again when it
/// changes.
#define TANDEM_EMBED(label, file)     \
  asm(".pushsection .rodata\n" #label \
      ":\n"                           \
      ".incbin \"" file "\"\n" #label \
      "_end:\n"                       \
      ".byte 0\n.popsection\n")
