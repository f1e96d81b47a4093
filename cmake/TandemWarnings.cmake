# SPDX-License-Identifier: Apache-2.0
# tandem_warnings(TARGET): the warnings that our own code is clean of. Errors only where TANDEM_WERROR says so (CI), never for users, and
# not under sanitizers: what those insert makes GCC see bounds exceeded in the standard library where none are.

function(tandem_warnings target)
  set(warnings -Wall -Wextra -Wconversion -Wsign-conversion -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wcast-align
      -Wformat=2 -Wimplicit-fallthrough -Wextra-semi
      -Wno-maybe-uninitialized)  # GCC 12 sees std::optional uninitialized where it is not
  if(CMAKE_UNITY_BUILD)  # what a source keeps to itself is then seen by those compiled with it
    list(APPEND warnings -Wno-subobject-linkage)
    if(NOT TANDEM_UNITY_PROGRAMS)  # the library's sources have names that collide so; those of programs have none
      list(APPEND warnings -Wno-shadow)
    endif()
  endif()
  if(TANDEM_WERROR AND NOT TANDEM_SANITIZE)
    list(APPEND warnings -Werror)
  endif()
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:${warnings}>)
endfunction()
