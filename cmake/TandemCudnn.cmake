# SPDX-License-Identifier: Apache-2.0
# Finds the headers of cudnn-frontend and of cuDNN, from which attention on CUDA devices is compiled; the library is
# loaded at run time. Sets TANDEM_WITH_CUDNN, and TANDEM_CUDNN_REASON for the summary and for Device::why_no_attention.

set(TANDEM_WITH_CUDNN FALSE)
set(TANDEM_CUDNN_FRONTEND 1.32.0)  # the one that scripts/fetch_cudnn_frontend.sh fetches, and the oldest

# Wheels of Python put headers there.
set(packages "")
if(NOT CUDNN_FRONTEND_INCLUDE_DIR OR NOT CUDNN_INCLUDE_DIR)
  execute_process(COMMAND python3 -c "import sysconfig; print(sysconfig.get_path('purelib'))"
                  OUTPUT_VARIABLE packages OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE python)
  if(NOT python EQUAL 0)
    set(packages "")
  endif()
endif()
set(fetched "$ENV{XDG_CACHE_HOME}")
if(NOT fetched)
  set(fetched "$ENV{HOME}/.cache")
endif()
find_path(CUDNN_FRONTEND_INCLUDE_DIR cudnn_frontend.h
  HINTS "${fetched}/tandem/cudnn-frontend-${TANDEM_CUDNN_FRONTEND}/include" "${packages}/include"
  PATHS ${CUDAToolkit_INCLUDE_DIRS}
  DOC "Where cudnn_frontend.h is")
find_path(CUDNN_INCLUDE_DIR cudnn.h
  HINTS ${CUDAToolkit_INCLUDE_DIRS} "${packages}/nvidia/cudnn/include"
  DOC "Where cudnn.h is")
mark_as_advanced(CUDNN_FRONTEND_INCLUDE_DIR CUDNN_INCLUDE_DIR)

# tandem_header_version(VARIABLE HEADER PREFIX SUFFIX...): "1.32.0", from its macros PREFIX_SUFFIX.
function(tandem_header_version variable header prefix)
  set(version "")
  foreach(suffix IN LISTS ARGN)
    set(number 0)
    if(EXISTS "${header}")
      file(STRINGS "${header}" line REGEX "^#define ${prefix}_${suffix} +[0-9]+" LIMIT_COUNT 1)
      if(line MATCHES " ([0-9]+)")
        set(number ${CMAKE_MATCH_1})
      endif()
    endif()
    list(APPEND version ${number})
  endforeach()
  list(JOIN version . version)
  set(${variable} ${version} PARENT_SCOPE)
endfunction()

if(NOT CUDNN_INCLUDE_DIR)
  set(TANDEM_CUDNN_REASON "cudnn.h was not found")
elseif(NOT EXISTS "${CUDNN_INCLUDE_DIR}/cudnn.h")
  set(TANDEM_CUDNN_REASON "there is no cudnn.h in ${CUDNN_INCLUDE_DIR}")
elseif(NOT CUDNN_FRONTEND_INCLUDE_DIR)
  set(TANDEM_CUDNN_REASON "cudnn_frontend.h was not found, scripts/fetch_cudnn_frontend.sh fetches it")
elseif(NOT EXISTS "${CUDNN_FRONTEND_INCLUDE_DIR}/cudnn_frontend.h")
  set(TANDEM_CUDNN_REASON "there is no cudnn_frontend.h in ${CUDNN_FRONTEND_INCLUDE_DIR}")
else()
  tandem_header_version(frontend "${CUDNN_FRONTEND_INCLUDE_DIR}/cudnn_frontend_version.h" CUDNN_FRONTEND
                        MAJOR_VERSION MINOR_VERSION PATCH_VERSION)
  tandem_header_version(cudnn "${CUDNN_INCLUDE_DIR}/cudnn_version.h" CUDNN MAJOR MINOR PATCHLEVEL)
  if(frontend VERSION_LESS TANDEM_CUDNN_FRONTEND)
    set(TANDEM_CUDNN_REASON "cudnn-frontend ${frontend} was found, ${TANDEM_CUDNN_FRONTEND} is the oldest that works; CUDNN_FRONTEND_INCLUDE_DIR names another")
  elseif(cudnn VERSION_LESS 9 OR cudnn VERSION_GREATER_EQUAL 10)
    set(TANDEM_CUDNN_REASON "cuDNN ${cudnn} was found, 9 is the one that works")
  else()
    set(TANDEM_WITH_CUDNN TRUE)
    set(TANDEM_CUDNN_REASON "attention on CUDA devices; cudnn-frontend ${frontend}, compiled for cuDNN ${cudnn}")
  endif()
endif()
