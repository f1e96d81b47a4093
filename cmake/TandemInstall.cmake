# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` installs, and where. The exported target has only the headers and the library: everything that
# the library is built from is private, so that consumers need none of it.
if(NOT TANDEM_INSTALL)
  return()
endif()

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(TANDEM_CONFIG_DIR "${CMAKE_INSTALL_LIBDIR}/cmake/tandem")

install(TARGETS tandem EXPORT tandem-targets
        LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
        INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/tandem" "${PROJECT_BINARY_DIR}/include/tandem"
        DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
        FILES_MATCHING PATTERN "*.hpp" PATTERN "*.cuh")
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" "${PROJECT_SOURCE_DIR}/NOTICE" DESTINATION "${CMAKE_INSTALL_DOCDIR}")

install(EXPORT tandem-targets NAMESPACE tandem:: DESTINATION "${TANDEM_CONFIG_DIR}")
configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/tandem-config.cmake.in"
                              "${PROJECT_BINARY_DIR}/tandem-config.cmake" INSTALL_DESTINATION "${TANDEM_CONFIG_DIR}"
                              NO_CHECK_REQUIRED_COMPONENTS_MACRO)  # that one gives no reason
write_basic_package_version_file("${PROJECT_BINARY_DIR}/tandem-config-version.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/tandem-config.cmake" "${PROJECT_BINARY_DIR}/tandem-config-version.cmake"
        DESTINATION "${TANDEM_CONFIG_DIR}")

# For builds without CMake. The file finds the others relative to its own folder, even if the prefix is moved.
set(pc_dir "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig")
file(RELATIVE_PATH prefix_from_pc "${pc_dir}" "${CMAKE_INSTALL_PREFIX}")
file(RELATIVE_PATH includes_from_pc "${pc_dir}" "${CMAKE_INSTALL_FULL_INCLUDEDIR}")
configure_file("${PROJECT_SOURCE_DIR}/cmake/tandem.pc.in" "${PROJECT_BINARY_DIR}/tandem.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/tandem.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")

if(TARGET tandem-cli)
  # The installed command line finds the library relative to its own folder, even if the prefix is moved.
  file(RELATIVE_PATH libraries_from_programs "${CMAKE_INSTALL_FULL_BINDIR}" "${CMAKE_INSTALL_FULL_LIBDIR}")
  set_target_properties(tandem-cli PROPERTIES INSTALL_RPATH "$ORIGIN/${libraries_from_programs}")
  install(TARGETS tandem-cli RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
endif()
