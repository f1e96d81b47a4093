# SPDX-License-Identifier: Apache-2.0
# The build's options. As a subproject, Tandem builds only the library.

set(compiler "${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION} (${CMAKE_CXX_COMPILER})")
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 16)
  message(FATAL_ERROR "Tandem needs GCC 12 or later, or Clang 16; the C++ compiler is ${compiler}; set CMAKE_CXX_COMPILER "
                      "to another")
elseif(NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  message(WARNING "Tandem is tested with GCC 12 and later only; the C++ compiler is ${compiler}")
elseif(CMAKE_CXX_COMPILER_VERSION VERSION_LESS 12)
  message(FATAL_ERROR "Tandem needs GCC 12 or later; the C++ compiler is ${compiler}; set CMAKE_CXX_COMPILER to another")
endif()

set(TANDEM_CUDA "AUTO" CACHE STRING "CUDA devices: AUTO (if a compiler is found), ON or OFF")
set_property(CACHE TANDEM_CUDA PROPERTY STRINGS AUTO ON OFF)
if(NOT TANDEM_CUDA MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "TANDEM_CUDA is '${TANDEM_CUDA}'; allowed: AUTO, ON, OFF")
endif()
set(TANDEM_SANITIZE "" CACHE STRING "Sanitizers: empty, 'address,undefined' or 'thread'")
option(TANDEM_WERROR "Warnings are errors" OFF)
option(TANDEM_TOOLS "Build the command line" ${PROJECT_IS_TOP_LEVEL})
option(TANDEM_EXAMPLES "Build the examples" ${PROJECT_IS_TOP_LEVEL})
option(TANDEM_BENCHMARKS "Build the micro-benchmarks" OFF)
option(TANDEM_TESTS "Build the tests" ${PROJECT_IS_TOP_LEVEL})
option(TANDEM_INSTALL "Make install rules" ${PROJECT_IS_TOP_LEVEL})
option(TANDEM_UNITY_PROGRAMS "Compile several sources at a time, but for the library's" OFF)

if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
elseif(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  message(WARNING "CMAKE_BUILD_TYPE is not set, so Tandem is compiled without optimization; -DCMAKE_BUILD_TYPE=Release sets it")
endif()
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

find_program(TANDEM_CCACHE ccache)
if(TANDEM_CCACHE AND PROJECT_IS_TOP_LEVEL)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${TANDEM_CCACHE}")
  set(CMAKE_CUDA_COMPILER_LAUNCHER "${TANDEM_CCACHE}")
endif()
