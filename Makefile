# The front door: every target sets up what it needs. `make` alone lists them.
# Variables: MODEL, PORT, ARGS (run, bench), FUZZ_SECONDS, PREFIX, DESTDIR, CMAKE_ARGS (further arguments of CMake).

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:

MODEL ?=
PORT ?=
ARGS ?=
FUZZ_SECONDS ?= 60
PREFIX ?= /usr/local
DESTDIR ?=
CMAKE_ARGS ?=

# $(call configure,DIR,ARGUMENTS)
configure = cmake --log-level=NOTICE -G Ninja -S . -B $(1) $(2) $(if $(BLAKE3_DIR),-DBLAKE3_DIR='$(BLAKE3_DIR)') $(CMAKE_ARGS)

SANITIZED := -DCMAKE_BUILD_TYPE=RelWithDebInfo
CLANG := -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' Makefile

.PHONY: deps
deps: ## Install Debian packages and prepare llama.cpp (once, about 9 minutes on 2 cores)
	@scripts/bootstrap

.PHONY: build
build: deps ## Build build/skippy and build/libskippy-cache.{a,so}
	@$(call configure,build)
	@cmake --build build

.PHONY: run
run: build ## Serve MODEL=path.gguf, or a generated demo model (PORT=, ARGS="further flags")
	@MODEL='$(MODEL)' PORT='$(PORT)' exec scripts/run $(ARGS)

.PHONY: test
test: ## Build and run all tests
	@scripts/bootstrap --tests
	@$(call configure,build)
	@cmake --build build
	@scripts/test build

.PHONY: test-cache
test-cache: ## Build and test the cache library alone (no llama.cpp, no server)
	@scripts/bootstrap --cache-only
	@$(call configure,build-cache,-DSKIPPY_WITH_LLAMA=OFF)
	@cmake --build build-cache
	@scripts/test build-cache

.PHONY: bench-cache
bench-cache: ## Microbenchmarks of the cache library
	@scripts/bootstrap --cache-only
	@$(call configure,build-cache,-DSKIPPY_WITH_LLAMA=OFF)
	@cmake --build build-cache
	@build-cache/skippy-cache-bench $(ARGS)

.PHONY: baseline
baseline: ## Build llama-server from the same llama.cpp tree: build/llama-server
	@scripts/bootstrap --baseline

.PHONY: baseline-rpc
baseline-rpc: ## Build llama-server with the RPC backend, and rpc-server: build/rpc-llama-server, build/rpc-server
	@scripts/bootstrap --baseline-rpc

.PHONY: bench
bench: baseline build ## Compare with llama-server on MODEL, or on generated 1.5 B models (ARGS="further flags")
	@MODEL='$(MODEL)' scripts/bench $(ARGS)

.PHONY: bench-family
bench-family: ## Compare all model families with llama-server, report in out/family (ARGS="further flags")
	@evals/skippy-cache-family-bench.sh out/family $(ARGS)

.PHONY: fuzz
fuzz: ## Run every fuzzer for FUZZ_SECONDS (60)
	@scripts/bootstrap --dev
	@$(call configure,build-fuzz,$(CLANG) $(SANITIZED) -DSKIPPY_BUILD_FUZZERS=ON -DSKIPPY_BUILD_TESTS=OFF)
	@cmake --build build-fuzz --target fuzzers
	@scripts/fuzz build-fuzz $(FUZZ_SECONDS)

.PHONY: certify
certify: build ## Certify all synthetic model families (minutes); MODEL=path.gguf certifies that file instead
	@if [ -n '$(MODEL)' ]; then build/skippy certify -m '$(MODEL)' $(ARGS); else build/skippy certify --all-synthetic $(ARGS); fi

.PHONY: asan
asan: deps ## Unit and model tests under AddressSanitizer and UndefinedBehaviorSanitizer
	@$(call configure,build-asan,$(SANITIZED) -DSKIPPY_SANITIZE=address$(comma)undefined)
	@cmake --build build-asan
	@scripts/test build-asan 'unit|model'

.PHONY: tsan
tsan: deps ## Tests of threaded code under ThreadSanitizer
	@$(call configure,build-tsan,$(SANITIZED) -DSKIPPY_SANITIZE=thread)
	@cmake --build build-tsan
	@scripts/test build-tsan threads

.PHONY: format
format: ## Format our sources
	@scripts/format

.PHONY: format-check
format-check: ## Fail when a source is not formatted
	@scripts/format --check

.PHONY: lint
lint: ## clang-tidy, cppcheck and shellcheck: zero warnings
	@scripts/bootstrap --dev
	@$(call configure,build-lint,$(CLANG) -DSKIPPY_BUILD_FUZZERS=ON)
	@scripts/lint build-lint

.PHONY: install
install: build ## Install below PREFIX (/usr/local), DESTDIR in front
	@DESTDIR='$(DESTDIR)' cmake --install build --prefix '$(PREFIX)'

.PHONY: clean
clean: ## Remove build folders (the llama.cpp build in the cache stays)
	@rm -rf build build-*

comma := ,
