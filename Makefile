# SPDX-License-Identifier: Apache-2.0
# Short names for the CMake presets. `make` lists them; CONTRIBUTING.md has the commands behind them.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:

JOBS ?= $(shell nproc)
# CMake looks for nvcc on PATH alone, unless CUDACXX says where it is.
NVCC := $(or $(CUDACXX),$(shell command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null))
ifneq ($(NVCC),)
export CUDACXX := $(NVCC)
endif
# With a GPU and a toolkit that CMake takes, the demo and the tests use it. PRESET=release keeps to the host.
toolkit = oldest=$$(sed -n 's/^set(TANDEM_OLDEST_CUDA \(.*\))$$/\1/p' cmake/TandemCuda.cmake); \
  found=$$($(NVCC) --version | sed -n 's/.* release \([0-9.]*\),.*/\1/p'); \
  printf '%s\n' "$$oldest" "$${found:-0}" | sort --version-sort --check=silent && echo usable
# Looked for when first needed, and once. A driver in trouble may say so on stdout, or not answer at all.
GPUS = $(eval GPUS := $(shell timeout 10 nvidia-smi -L 2>/dev/null | grep '^GPU '))$(GPUS)
ifndef PRESET
PRESET = $(eval PRESET := $(if $(and $(NVCC),$(shell $(toolkit)),$(GPUS)),cuda,release))$(PRESET)
endif
# Warnings are errors in CI, not for users.
CONFIGURE ?= $(if $(CI),-DTANDEM_WERROR=ON)
# How many tests run side by side; one with GPUs, whose time and memory they would share.
TEST_JOBS ?= $(if $(GPUS),1,2)
# How much the stress tests do; `make stress` does all of it.
TANDEM_TEST_SCALE ?= 0.1
export TANDEM_TEST_SCALE
export NINJA_STATUS ?= [%f/%t, %e s] 

# INSTALL=no: with libraries that came by another way than Debian's packages. CMake says what it does not find.
INSTALL ?= yes
# $(call install,PURPOSE)
install = $(if $(filter no,$(INSTALL)),:,scripts/install_dependencies.sh --for $(1) && scripts/fetch_cudnn_frontend.sh)

# $(call build,PRESET[,TARGETS])
build = cmake --preset $(1) $(CONFIGURE) && cmake --build --preset $(1) --parallel $(JOBS) $(if $(2),--target $(2))
# $(call ctest,PRESET,OPTIONS): the results go to build/PRESET/results.xml, too. Where there is a GPU, a build that should
# find it must.
ctest = $(if $(filter cuda,$(1)),$(if $(GPUS),TANDEM_TEST_NEEDS_GPU=1 ))ctest --preset $(1) --parallel $(TEST_JOBS) --output-junit results.xml $(2) $(TESTS)

.PHONY: help
help: ## list these targets
	@echo "make TARGET, one of:"
	@sed -n 's/^\([a-z_-]*\):.*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | while IFS=$$'\t' read -r name text; do printf '  %-8s %s\n' "$$name" "$$text"; done

.PHONY: demo
demo: ## train a small language model on 4 ranks, or one for each GPU, check it, and draw what each rank did (ARGS="--steps 50")
	@$(call install,demo)
	$(call build,$(PRESET),tandem-cli)
	build/$(PRESET)/tools/tandem demo $(ARGS)

.PHONY: test
test: ## build, and run all tests (TESTS="-R name" chooses)
	@$(call install,test)
	$(call build,$(PRESET))
	$(call ctest,$(PRESET))

# For scripts: which preset `make test` takes here.
.PHONY: preset
preset:
	@echo $(PRESET)

.PHONY: lint
lint: ## formatting, clang-tidy, shell scripts, and our own checks of the sources (LINTS="format shell" chooses)
	@$(call install,lint)
	@cmake --preset $(if $(CI),lint,release) $(CONFIGURE)
	@$(if $(and $(NVCC),$(shell $(toolkit))),cmake --preset cuda $(CONFIGURE))
	scripts/lint.sh $(LINTS)

.PHONY: bench
bench: ## compare with Open MPI and Gloo, side by side on this machine
	@$(call install,bench)
	cmake --preset release $(CONFIGURE) -DTANDEM_BENCHMARKS=ON && cmake --build --preset release --parallel $(JOBS)
	benchmarks/collectives/run.sh $(ARGS)

.PHONY: stress
stress: ## the stress and kill tests, with all of their rounds
	@$(call install,test)
	$(call build,$(PRESET))
	TANDEM_TEST_SCALE=1 $(call ctest,$(PRESET),-R 'Stress|Kill')

.PHONY: asan
asan: ## all tests under AddressSanitizer and UndefinedBehaviorSanitizer
	@$(call install,test)
	$(call build,asan)
	$(call ctest,asan)

.PHONY: tsan
tsan: ## all tests under ThreadSanitizer, ranks as threads
	@$(call install,test)
	$(call build,tsan)
	$(call ctest,tsan)

.PHONY: cuda
cuda: ## build with CUDA and run its tests, which skip without a GPU, and use what it installs
	@$(call install,test)
	$(call build,cuda)
	build/cuda/tools/tandem info
	$(call ctest,cuda,-R '[Cc]uda|consumer[.](find_package|pkg_config)')

.PHONY: clean
clean: ## remove all that was built
	rm -rf build
