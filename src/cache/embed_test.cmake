# Installs the cache component into a scratch prefix and uses it as an embedder would: pkg-config, compiler, run.
set(PREFIX ${BUILD_DIR}/tests/embed-prefix)
set(WORK ${BUILD_DIR}/tests/embed-work)
file(REMOVE_RECURSE ${PREFIX} ${WORK})
file(MAKE_DIRECTORY ${WORK})

# run(what command...): runs a command, fails the test with its output unless it succeeds; standard output in RUN_OUTPUT.
function(run what)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE rc OUTPUT_VARIABLE out ERROR_VARIABLE err)
  if(NOT rc EQUAL 0)
    message(FATAL_ERROR "${what}: '${rc}'\n${out}${err}")
  endif()
  set(RUN_OUTPUT "${out}" PARENT_SCOPE)
endfunction()

function(pkg_config_list variable)
  run("pkg-config ${ARGN}" ${CMAKE_COMMAND} -E env PKG_CONFIG_PATH=${PREFIX}/${LIBDIR}/pkgconfig
    PKG_CONFIG_ALLOW_SYSTEM_LIBS=1 pkg-config ${ARGN} skippy-cache)
  separate_arguments(words UNIX_COMMAND "${RUN_OUTPUT}")
  set(${variable} ${words} PARENT_SCOPE)
endfunction()

run("install" ${CMAKE_COMMAND} --install ${BUILD_DIR} --component cache --prefix ${PREFIX})
pkg_config_list(CFLAGS --cflags)
pkg_config_list(SHARED --libs)
pkg_config_list(STATIC --static --libs)
list(TRANSFORM STATIC REPLACE "^-lskippy-cache$" "-l:libskippy-cache.a")
set(STRICT -Wall -Wextra -Wpedantic -Werror)
set(SANITIZER_FLAGS)
if(SANITIZE)
  set(SANITIZER_FLAGS -fsanitize=${SANITIZE})
endif()

# Every header stands alone, in C11 and in C++.
file(GLOB HEADERS RELATIVE ${PREFIX}/include/skippy ${PREFIX}/include/skippy/*.h)
foreach(header ${HEADERS})
  file(WRITE ${WORK}/alone.c "#include <skippy/${header}>\nint main(void) { return 0; }\n")
  run("C11 ${header}" ${CC} -std=c11 ${STRICT} ${CFLAGS} -fsyntax-only ${WORK}/alone.c)
  run("C++ ${header}" ${CXX} -x c++ -std=c++17 ${STRICT} ${CFLAGS} -fsyntax-only ${WORK}/alone.c)
endforeach()

set(EXPECTED "first request: miss, recorded 6 tokens\nsecond request: hit, 5 of 7 tokens from sequence 4\n")
foreach(kind SHARED STATIC)
  run("compile, ${kind}" ${CC} -std=c11 ${STRICT} ${SANITIZER_FLAGS} ${CFLAGS} ${SOURCE_DIR}/examples/embed.c
    -o ${WORK}/embed-${kind} ${${kind}})
  run("run, ${kind}" ${CMAKE_COMMAND} -E env LD_LIBRARY_PATH=${PREFIX}/${LIBDIR} ${WORK}/embed-${kind})
  if(NOT RUN_OUTPUT STREQUAL EXPECTED)
    message(FATAL_ERROR "${kind}: the example printed\n${RUN_OUTPUT}instead of\n${EXPECTED}")
  endif()
endforeach()

# Nothing but the public interface is visible.
run("nm" ${NM} -D --defined-only --format=posix ${PREFIX}/${LIBDIR}/libskippy-cache.so)
string(REGEX MATCHALL "[^\n]+" SYMBOLS "${RUN_OUTPUT}")
list(FILTER SYMBOLS EXCLUDE REGEX "^skippy_")
if(SYMBOLS AND NOT SANITIZE)
  message(FATAL_ERROR "libskippy-cache.so exports more than skippy_*:\n${SYMBOLS}")
endif()
