# SPDX-License-Identifier: Apache-2.0
# tandem_warnings(TARGET): the warnings of which our code is free. Errors only with TANDEM_WERROR (CI), never for users,
# and not with sanitizers: there GCC sees out-of-bounds accesses in the standard library that do not exist.

function(tandem_warnings target)
  set(warnings -Wall -Wextra -Wconversion -Wsign-conversion -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wcast-align
      -Wformat=2 -Wimplicit-fallthrough -Wextra-semi
      -Wno-maybe-uninitialized)  # GCC 12 reports initialized std::optionals as uninitialized
  if(CMAKE_UNITY_BUILD)  # a source's local types are then seen by others
    list(APPEND warnings -Wno-subobject-linkage)
    if(NOT TANDEM_UNITY_PROGRAMS)  # in the library's sources, local names collide then
      list(APPEND warnings -Wno-shadow)
    endif()
  endif()
  if(TANDEM_WERROR AND NOT TANDEM_SANITIZE)
    list(APPEND warnings -Werror)
  endif()
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:${warnings}>)
endfunction()
