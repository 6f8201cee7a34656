# On a fresh machine with nothing but Python >= 3.11: `make demo`, `make test`.
#
# Each environment is made once. A stamp file records what was installed; as long as it is newer than pyproject.toml, pip is
# not called, so that the second run needs no network. Byte code is written then too: where PYTHONDONTWRITEBYTECODE is set, every
# start would compile the package again.
PYTHON ?= python3
VENV   ?= .venv
JOBS   ?= 2
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check --quiet
# Byte code is written afterwards, on all processors; of some packages' templates, which are not Python, there is none.
INSTALL := $(PIP) install --no-compile
COMPILE := $(BIN)/python -m compileall -qq -j 0 $(VENV)/lib flambeau || true
# One BLAS thread a process: two test processes with two spinning threads each would mostly wait for one another.
# Rewritten test modules are kept: the second and the third run need not compile them again.
PYTEST := PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest

# The oracle is real PyTorch, the build that this machine's pip finds. CI and ORACLE=1 install it and insist on it.
EXTRAS := test
ifneq ($(filter true 1,$(CI) $(ORACLE)),)
EXTRAS := test,oracle
ORACLE_STAMP := $(VENV)/oracle.stamp
export FLAMBEAU_REQUIRE_ORACLE := 1
endif

.PHONY: help demo test against targets quick lint types bench clients clean
help:
	@echo "make demo    train on handwritten digits; a checkpoint and pictures go to out/digits"
	@echo "make test    style, types, all tests (ORACLE=1: with real PyTorch beside)"
	@echo "make quick   the fast subset"
	@echo "make against the tests that compare with PyTorch, with it; make targets: kernels for every class of processors"
	@echo "make clients public packages that are built on PyTorch, run on flambeau and compared with PyTorch (docs/clients.md)"
	@echo "make lint | types | bench | clean"

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "flambeau needs Python 3.11 or newer: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/demo.stamp: pyproject.toml | $(BIN)/python
	$(INSTALL) -e '.[examples]'
	$(COMPILE)
	@touch $@

$(VENV)/test.stamp: pyproject.toml | $(BIN)/python
	$(INSTALL) -e '.[$(EXTRAS)]'
	$(COMPILE)
	@touch $@ $(VENV)/demo.stamp $(ORACLE_STAMP)

$(VENV)/oracle.stamp: pyproject.toml $(VENV)/test.stamp
	$(INSTALL) -e '.[oracle]'
	$(COMPILE)
	@touch $@

demo: $(VENV)/demo.stamp
	$(BIN)/python examples/digits.py

lint: $(VENV)/test.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/test.stamp
	$(BIN)/mypy

# First everything on NumPy alone, doctests and import rules among them; then what computes, with native kernels however small the operands
# are, without errors, declarations and the database's integers, which kernels hardly touch, without numeric derivatives (gradients are
# compared), and without the families of the database that have no kernels; then the kernels' own tests. Compiled kernels are kept in the environment, so that a second time compiles nothing.
KERNELS := FLAMBEAU_CACHE=$(abspath $(VENV))/kernels
WITHOUT_KERNELS := fft or signal or masked. or (_copy and not index_copy) or grid_s
COMPUTED := -k 'not error and not finite_differences and not every_operation_has and not every_record_has and not ViewPrograms and not integral \
	and not end_their_process and not (database and ($(WITHOUT_KERNELS)))'
RECORDED := $(addprefix tests/test_,operations.py recorded_database.py large_pointwise.py) tests/devices/test_records_on_probe.py \
	$(addprefix tests/nn/test_,attention.py ctc.py functional_namespace.py layer_forward.py rnn.py)
CAPTURED := $(addprefix tests/capture/test_,epilogues.py launches.py lookups.py lowering.py memory_of_values.py rowwise.py)
RESTING := $(addprefix tests/test_,op_db.py differential.py) tests/nn/test_module_db.py tests/optim

NUMPY := FLAMBEAU_KERNELS=numpy $(PYTEST) -n $(JOBS) --dist worksteal --ignore=tests/kernels
SMALL := $(KERNELS) FLAMBEAU_KERNELS_FROM=1 FLAMBEAU_FAST_PATH=machine $(PYTEST) -n $(JOBS) --dist worksteal

# Types are checked beside the first of these.
test: lint $(VENV)/test.stamp $(ORACLE_STAMP) | $(VENV)/kernels
	$(BIN)/mypy & types=$$!; $(NUMPY); tests=$$?; wait $$types && exit $$tests
	$(SMALL) $(RECORDED) $(RESTING) $(CAPTURED) $(COMPUTED)
	$(KERNELS) $(PYTEST) -n $(JOBS) --dist worksteal tests/kernels

# Of the same, the files whose tests compare with PyTorch; with kernels however small the operands are, those that rest without it.
against: export FLAMBEAU_REQUIRE_ORACLE := 1
against: $(VENV)/test.stamp $(VENV)/oracle.stamp | $(VENV)/kernels
	$(NUMPY) --asks-pytorch
	$(SMALL) $(filter-out %differential.py,$(RESTING)) $(COMPUTED)
	$(KERNELS) $(PYTEST) -n $(JOBS) --dist worksteal --asks-pytorch tests/kernels

# Kernels for classes of processors below AVX-512, as far as this machine's is above them: what is quick, and not of all classes anyway;
# one half of them for the one class, the other half for the other, and the next day the other way round.
OF_ALL_CLASSES := $(foreach name,cache language memory pool special targets vectors,--ignore=tests/kernels/test_$(name).py)
targets: $(VENV)/test.stamp | $(VENV)/kernels
	half=0; for target in plain $$(grep -qsw avx2 /proc/cpuinfo && echo avx2); do \
		$(KERNELS) FLAMBEAU_TARGET=$$target $(PYTEST) -m 'not slow' --part $$half/2 -n $(JOBS) --dist worksteal $(OF_ALL_CLASSES) tests/kernels \
			|| exit 1; half=1; \
	done

$(VENV)/kernels: | $(BIN)/python
	mkdir -p -m 700 $@

# PART="--part 0/2": one half, the other half the next day.
quick: $(VENV)/test.stamp
	$(BIN)/ruff check .
	$(NUMPY) -q -x -m 'not slow' $(PART)

# Packages go to an environment of their own, where PyTorch is not: flambeau stands in for it.
CLIENTS_VENV ?= .venv-clients
CLIENTS_BIN  := $(CLIENTS_VENV)/bin
CLIENTS_PIP  := $(CLIENTS_BIN)/python -m pip --disable-pip-version-check --quiet

$(CLIENTS_VENV)/clients.stamp: clients/requirements.txt pyproject.toml
	$(PYTHON) -m venv $(CLIENTS_VENV)
	$(CLIENTS_PIP) install -e .
	$(CLIENTS_PIP) install --no-deps -r clients/requirements.txt
	$(CLIENTS_BIN)/python -m flambeau alias --install
	@touch $@

clients: $(CLIENTS_VENV)/clients.stamp
	$(CLIENTS_BIN)/python clients/run.py $(CLIENTS)

bench: $(VENV)/test.stamp $(VENV)/oracle.stamp
	$(BIN)/python -m benchmarks all

clean:
	rm -rf $(VENV) build dist out *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
