# SPDX-License-Identifier: Apache-2.0
# Writes OUTPUT from INPUT, with the commit of the sources as @TANDEM_COMMIT@; it is empty where SOURCES is not a git
# checkout. A file that would not change keeps its time.
#   cmake -DSOURCES=DIR -DINPUT=FILE.in -DOUTPUT=FILE -P TandemCommit.cmake
find_program(GIT git)
set(TANDEM_COMMIT "")
if(GIT AND EXISTS "${SOURCES}/.git")
  # A hook of git names the repository that it runs in.
  execute_process(COMMAND "${CMAKE_COMMAND}" -E env --unset=GIT_DIR --unset=GIT_WORK_TREE --unset=GIT_INDEX_FILE
                          "${GIT}" -C "${SOURCES}" describe --always --dirty --abbrev=7 --exclude=*
                  OUTPUT_VARIABLE TANDEM_COMMIT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
configure_file("${INPUT}" "${OUTPUT}" @ONLY)
