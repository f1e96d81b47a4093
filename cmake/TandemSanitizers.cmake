# SPDX-License-Identifier: Apache-2.0
# One set of sanitizers for the whole build: a mix of instrumented and other code would hide errors. The only exception
# is the oracle, which computes on its own data (tests/support).

if(TANDEM_SANITIZE)
  add_compile_options(-fsanitize=${TANDEM_SANITIZE} -fno-omit-frame-pointer -g1)
  add_link_options(-fsanitize=${TANDEM_SANITIZE})
  if(TANDEM_SANITIZE MATCHES "undefined")
    add_compile_options(-fno-sanitize-recover=undefined)
  endif()
endif()
