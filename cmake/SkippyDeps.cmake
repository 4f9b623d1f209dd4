# External libraries of the server: libevent, OpenSSL, jansson, libcurl (Debian packages) and llama.cpp (prepared by scripts/bootstrap).
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
pkg_check_modules(EVENT REQUIRED IMPORTED_TARGET libevent libevent_openssl libevent_pthreads)
pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)
# 7.85 brought lists of protocols as text
pkg_check_modules(CURL REQUIRED IMPORTED_TARGET libcurl>=7.85)
pkg_check_modules(OPENSSL REQUIRED IMPORTED_TARGET openssl)

# scripts/bootstrap leaves both paths in build/deps.cmake; paths on the command line win.
if(NOT LLAMA_CPP_SRC AND NOT LLAMA_CPP_BUILD AND EXISTS ${CMAKE_SOURCE_DIR}/build/deps.cmake)
  include(${CMAKE_SOURCE_DIR}/build/deps.cmake)
endif()
if(NOT EXISTS "${LLAMA_CPP_SRC}/include/llama.h" OR NOT EXISTS "${LLAMA_CPP_BUILD}/bin/libllama.so")
  message(FATAL_ERROR "llama.cpp was not found (LLAMA_CPP_SRC='${LLAMA_CPP_SRC}', LLAMA_CPP_BUILD='${LLAMA_CPP_BUILD}'). Run 'make deps' first, or 'make test-cache' for the cache library alone.")
endif()

# llama: the C API (runtime/ only). llama-common: C++ chat templates and grammars (openai/chat_bridge.cpp only).
add_library(llama INTERFACE)
target_include_directories(llama SYSTEM INTERFACE ${LLAMA_CPP_SRC}/include ${LLAMA_CPP_SRC}/ggml/include)
target_link_libraries(llama INTERFACE
  ${LLAMA_CPP_BUILD}/bin/libllama.so ${LLAMA_CPP_BUILD}/bin/libggml.so ${LLAMA_CPP_BUILD}/bin/libggml-base.so)
add_library(llama-common INTERFACE)
target_include_directories(llama-common SYSTEM INTERFACE ${LLAMA_CPP_SRC}/common ${LLAMA_CPP_SRC}/vendor)
target_link_libraries(llama-common INTERFACE ${LLAMA_CPP_BUILD}/bin/libllama-common.so llama)
set(CMAKE_BUILD_RPATH "${LLAMA_CPP_BUILD}/bin")

# An installed program brings llama.cpp's libraries along, in a folder of its own: the system may have others.
set(CMAKE_INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}/skippy")
install(DIRECTORY ${LLAMA_CPP_BUILD}/bin/ DESTINATION ${CMAKE_INSTALL_LIBDIR}/skippy
  FILES_MATCHING REGEX "/lib(ggml|ggml-[a-z]+|llama|llama-common)\\.so[.0-9]*$")
