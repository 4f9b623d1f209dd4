# Settings that every target of ours shares, and the helpers that declare libraries and tests.
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_CXX_STANDARD 17)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
enable_testing()

add_library(skippy-flags INTERFACE)
target_compile_definitions(skippy-flags INTERFACE _GNU_SOURCE)
target_compile_options(skippy-flags INTERFACE
  $<$<COMPILE_LANGUAGE:C,CXX>:-Wall;-Wextra;-fno-omit-frame-pointer;-fstack-protector-strong>
  $<$<COMPILE_LANGUAGE:C>:-Wconversion;-Wshadow;-Wstrict-prototypes;-Wmissing-prototypes>)
if(SKIPPY_WERROR)
  target_compile_options(skippy-flags INTERFACE $<$<COMPILE_LANGUAGE:C,CXX>:-Werror>)
endif()
if(SKIPPY_SANITIZE)
  target_compile_options(skippy-flags INTERFACE
    $<$<COMPILE_LANGUAGE:C,CXX>:-fsanitize=${SKIPPY_SANITIZE};-fno-sanitize-recover=all;-g>)
  target_link_options(skippy-flags INTERFACE -fsanitize=${SKIPPY_SANITIZE})
endif()

if(SKIPPY_BUILD_FUZZERS)
  # The libraries must be instrumented too, or the fuzzer sees nothing but its own few lines.
  set(SKIPPY_FUZZ_FLAGS -fsanitize=fuzzer-no-link,address,undefined)
  target_compile_options(skippy-flags INTERFACE
    $<$<COMPILE_LANGUAGE:C,CXX>:${SKIPPY_FUZZ_FLAGS};-fno-sanitize-recover=all;-g>)
  target_link_options(skippy-flags INTERFACE ${SKIPPY_FUZZ_FLAGS})
  add_custom_target(fuzzers)
endif()

# skippy_library(NAME SOURCES a.c ... LINK other ...): one static library per layer.
# Includes are written from src/, as in #include "cache/index.h"; public headers as <skippy/x.h>.
function(skippy_library name)
  cmake_parse_arguments(A "" "" "SOURCES;LINK" ${ARGN})
  add_library(${name} STATIC ${A_SOURCES})
  target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR}/include ${CMAKE_SOURCE_DIR}/src)
  target_link_libraries(${name} PRIVATE skippy-flags PUBLIC ${A_LINK})
endfunction()

# skippy_test(NAME SOURCES x_test.c ... LINK lib ... [LABELS l] [TIMEOUT s]): one cmocka program.
# Labels: unit (default, no model), model (loads a generated GGUF), e2e (starts the server), threads (also run under TSan).
function(skippy_test name)
  if(NOT SKIPPY_BUILD_TESTS)
    return()
  endif()
  cmake_parse_arguments(A "" "TIMEOUT" "SOURCES;LINK;LABELS;ENV" ${ARGN})
  add_executable(${name} ${A_SOURCES})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/include ${CMAKE_SOURCE_DIR}/src)
  target_link_libraries(${name} PRIVATE skippy-flags ${A_LINK} cmocka)
  add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY ${CMAKE_BINARY_DIR})
  if(NOT A_LABELS)
    set(A_LABELS unit)
  endif()
  if(NOT A_TIMEOUT)
    set(A_TIMEOUT 120)
  endif()
  if(SKIPPY_SANITIZE)
    math(EXPR A_TIMEOUT "4 * ${A_TIMEOUT}") # instrumented code is several times slower
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${A_LABELS}" TIMEOUT ${A_TIMEOUT})
  set_tests_properties(${name} PROPERTIES ENVIRONMENT
    "SKIPPY_SOURCE_DIR=${CMAKE_SOURCE_DIR};SKIPPY_BUILD_DIR=${CMAKE_BINARY_DIR};GGML_NO_BACKTRACE=1;TSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/cmake/tsan.supp;LSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/cmake/lsan.supp;${A_ENV}")
endfunction()

# skippy_fuzzer(NAME SOURCES x_fuzz.c LINK lib): a libFuzzer program under fuzz/ of the build; target `fuzzers` builds all.
function(skippy_fuzzer name)
  if(NOT SKIPPY_BUILD_FUZZERS)
    return()
  endif()
  cmake_parse_arguments(A "" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${A_SOURCES})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzz)
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/include ${CMAKE_SOURCE_DIR}/src)
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  target_link_libraries(${name} PRIVATE skippy-flags ${A_LINK})
  add_dependencies(fuzzers ${name})
endfunction()
