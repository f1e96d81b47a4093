# SPDX-License-Identifier: Apache-2.0
# tandem_compile_alone(TARGET SOURCE...): excludes these sources from unity builds, since names in them that are local
# to the source are also used by others of the target.

function(tandem_compile_alone target)
  set_source_files_properties(${ARGN} TARGET_DIRECTORY ${target} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()
