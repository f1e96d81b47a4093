# SPDX-License-Identifier: Apache-2.0
# One sanitizer set for the whole build: mixing instrumented and plain code hides what we look for. The oracle alone is
# plain, which computes on numbers of its own (tests/support).

if(TANDEM_SANITIZE)
  add_compile_options(-fsanitize=${TANDEM_SANITIZE} -fno-omit-frame-pointer -g1)
  add_link_options(-fsanitize=${TANDEM_SANITIZE})
  if(TANDEM_SANITIZE MATCHES "undefined")
    add_compile_options(-fno-sanitize-recover=undefined)
  endif()
endif()
