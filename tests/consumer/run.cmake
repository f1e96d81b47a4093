# SPDX-License-Identifier: Apache-2.0
# cmake -D WAY=find_package|add_subdirectory|pkg_config -D SOURCE=… -D BUILD=… -D SCRATCH=… -D CXX=… -D LAUNCHER=… -D WITH_CUDA=… -P run.cmake
# Configures, builds and runs a consumer in SCRATCH, where nothing of an earlier run is left.

cmake_minimum_required(VERSION 3.25)

function(run)
  list(JOIN ARGV " " text)
  message(STATUS "${text}")
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "ended with ${status}: ${text}")
  endif()
endfunction()

file(REMOVE_RECURSE "${SCRATCH}")
set(common -S "${SOURCE}/tests/consumer/${WAY}" -B "${SCRATCH}/build" -G Ninja "-DCMAKE_CXX_COMPILER=${CXX}")
if(WAY STREQUAL "find_package")
  run("${CMAKE_COMMAND}" --install "${BUILD}" --prefix "${SCRATCH}/first")
  # The prefix moves before it is used: nothing that was installed may know where it was.
  file(RENAME "${SCRATCH}/first" "${SCRATCH}/prefix")
  run("${CMAKE_COMMAND}" ${common} "-DCMAKE_PREFIX_PATH=${SCRATCH}/prefix" -DCMAKE_BUILD_TYPE=Debug
      "-DEXPECTED_INCLUDES=${SCRATCH}/prefix/include" "-DEXPECTED_CUDA=${WITH_CUDA}")
  foreach(text LICENSE NOTICE)
    file(GLOB_RECURSE installed "${SCRATCH}/prefix/share/doc/*/${text}")
    if(NOT installed)
      message(FATAL_ERROR "${text} was not installed")
    endif()
  endforeach()
  # The first steps are a project of their own, too.
  set(first_steps "${SCRATCH}/first_steps")
  run("${CMAKE_COMMAND}" -S "${SOURCE}/examples/first_steps" -B "${first_steps}" -G Ninja "-DCMAKE_CXX_COMPILER=${CXX}"
      "-DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER}" "-DCMAKE_PREFIX_PATH=${SCRATCH}/prefix" -DCMAKE_BUILD_TYPE=Debug)
  run("${CMAKE_COMMAND}" --build "${first_steps}")
  if(EXISTS "${SCRATCH}/prefix/bin/tandem")
    run("${SCRATCH}/prefix/bin/tandem" run -n 2 -- "${first_steps}/linear")
  endif()
elseif(WAY STREQUAL "pkg_config")
  find_program(pkg_config NAMES pkg-config pkgconf)
  if(NOT pkg_config)
    message(STATUS "skipped: pkg-config is not installed")
    return()
  endif()
  run("${CMAKE_COMMAND}" --install "${BUILD}" --prefix "${SCRATCH}/first")
  file(RENAME "${SCRATCH}/first" "${SCRATCH}/prefix")
  file(GLOB_RECURSE pc "${SCRATCH}/prefix/tandem.pc")
  cmake_path(GET pc PARENT_PATH pc_dir)
  set(ENV{PKG_CONFIG_PATH} "${pc_dir}")
  execute_process(COMMAND "${pkg_config}" --cflags --libs tandem OUTPUT_VARIABLE flags COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(flags UNIX_COMMAND "${flags}")
  run("${CXX}" -std=c++20 "${SOURCE}/tests/consumer/program.cpp" -o "${SCRATCH}/program" ${flags}
      "-Wl,-rpath,${pc_dir}/..")
  run("${SCRATCH}/program")
  return()
else()
  # A parent may ask for unity builds, which also take less time.
  run("${CMAKE_COMMAND}" ${common} "-DTANDEM_SOURCE=${SOURCE}" -DTANDEM_CUDA=OFF -DCMAKE_UNITY_BUILD=ON
      "-DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER}")
endif()
run("${CMAKE_COMMAND}" --build "${SCRATCH}/build")
run("${SCRATCH}/build/program")
