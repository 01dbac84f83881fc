# numafit_library(name SOURCES ... LINK ...): a static library of one folder.
# numafit_test(name SOURCES ... LINK ...): a GoogleTest binary, one CTest test per case.
# Both compile with the project's warnings as errors.

function(numafit_warnings target)
  target_compile_options(${target} PRIVATE
    -Wall -Wextra -Wshadow -Wconversion -Wnon-virtual-dtor -Woverloaded-virtual
    -Wcast-align -Wunused -Wdouble-promotion -Wformat=2 -Werror)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    # The lock wrapper in api/mutex.h carries the annotations that this checks.
    target_compile_options(${target} PRIVATE -Wthread-safety)
  endif()
  if(NUMAFIT_MUTATIONS)
    target_compile_definitions(${target} PRIVATE NUMAFIT_MUTATIONS=1)
  endif()
endfunction()

# Headers of others that most files include. Only where NUMAFIT_PRECOMPILED_HEADERS asks for it: what
# a file forgets to include goes unnoticed there.
set(numafit_library_headers
  <absl/container/flat_hash_map.h> <absl/status/statusor.h> <absl/strings/str_cat.h>
  <fmt/format.h> <algorithm> <functional> <map> <memory> <optional> <set> <string> <utility> <vector>)
set(numafit_test_headers
  ${numafit_library_headers} <gmock/gmock.h> <gtest/gtest.h> <nlohmann/json.hpp>)
# numafit_precompile(target HEADERS... ): nothing where it would cost more than it spares.
function(numafit_precompile target)
  get_target_property(sources ${target} SOURCES)
  list(LENGTH sources files)
  if(NUMAFIT_PRECOMPILED_HEADERS AND files GREATER 3)
    target_precompile_headers(${target} PRIVATE ${ARGN})
    # Otherwise no two are the same, and the compiler cache knows none.
    target_compile_options(${target} PRIVATE "SHELL:-Xclang -fno-pch-timestamp")
  endif()
endfunction()

function(numafit_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK;PRIVATE_LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR}/generated)
  target_link_libraries(${name} PUBLIC ${ARG_LINK} PRIVATE ${ARG_PRIVATE_LINK})
  numafit_warnings(${name})
  numafit_precompile(${name} ${numafit_library_headers})
endfunction()

function(numafit_executable name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LINK})
  numafit_warnings(${name})
endfunction()

function(numafit_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK;LABELS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LINK} GTest::gtest GTest::gmock GTest::gtest_main)
  numafit_warnings(${name})
  target_compile_options(${name} PRIVATE ${NUMAFIT_TEST_FLAGS})
  numafit_precompile(${name} ${numafit_test_headers})
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  gtest_discover_tests(${name} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT 120
    DISCOVERY_MODE PRE_TEST)
endfunction()
