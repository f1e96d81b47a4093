# SPDX-License-Identifier: Apache-2.0
if(NOT TANDEM_INSTALL)
  return()
endif()

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS tandem EXPORT tandem-targets)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/tandem" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(EXPORT tandem-targets NAMESPACE tandem:: DESTINATION "${CMAKE_INSTALL_LIBDIR}/cmake/tandem")
configure_package_config_file(
  "${PROJECT_SOURCE_DIR}/cmake/tandem-config.cmake.in" "${PROJECT_BINARY_DIR}/tandem-config.cmake"
  INSTALL_DESTINATION "${CMAKE_INSTALL_LIBDIR}/cmake/tandem")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/tandem-config-version.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/tandem-config.cmake" "${PROJECT_BINARY_DIR}/tandem-config-version.cmake"
        DESTINATION "${CMAKE_INSTALL_LIBDIR}/cmake/tandem")
if(TANDEM_TOOLS)
  install(TARGETS tandem-cli)
endif()
