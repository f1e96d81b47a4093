# SPDX-License-Identifier: Apache-2.0
# tandem_compile_alone(TARGET SOURCE...): in unity builds each of these is compiled alone, since what it keeps to itself
# has names that its neighbours use, too.

function(tandem_compile_alone target)
  set_source_files_properties(${ARGN} TARGET_DIRECTORY ${target} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()
