# SPDX-License-Identifier: Apache-2.0
# The last lines of a configuration: what is included, what is not, and why.

function(tandem_summary_row what present reason)
  if(present)
    message(STATUS "  ${what}: in  (${reason})")
  else()
    message(STATUS "  ${what}: out (${reason})")
  endif()
endfunction()

include(CheckIncludeFileCXX)
check_include_file_cxx(oneapi/dnnl/dnnl.h TANDEM_ONEDNN_HEADERS)
if(TANDEM_ONEDNN_HEADERS)
  set(packing "with AVX-512 it packs the weights of products in pieces once")
else()
  set(packing "without its headers it packs the weights of products in pieces for each")
endif()

message(STATUS "Tandem ${PROJECT_VERSION}, ${CMAKE_BUILD_TYPE}")
tandem_summary_row("host device " TRUE
  "always; GEMM by oneDNN if libdnnl is there at run time, else built in; ${packing}")
tandem_summary_row("CUDA devices" ${TANDEM_WITH_CUDA} "${TANDEM_CUDA_REASON}")
tandem_summary_row("command line" ${TANDEM_TOOLS} "TANDEM_TOOLS")
tandem_summary_row("examples    " ${TANDEM_EXAMPLES} "TANDEM_EXAMPLES")
tandem_summary_row("benchmarks  " ${TANDEM_BENCHMARKS} "TANDEM_BENCHMARKS")
tandem_summary_row("tests       " ${TANDEM_TESTS} "TANDEM_TESTS")
if(TANDEM_SANITIZE)
  tandem_summary_row("sanitizers  " TRUE "${TANDEM_SANITIZE}")
else()
  tandem_summary_row("sanitizers  " FALSE "TANDEM_SANITIZE is empty")
endif()
