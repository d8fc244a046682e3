# Everything a reader needs: make book, make test. Each sets up .venv by itself the first time.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed

export OMP_NUM_THREADS := 1
# Where this is set, every process would compile every module of every package again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help made-here book live lab pdf style check test prose lowest coverage mutants bench sbom references format lock clean

help: ## list the targets
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

# uv does not read pip's settings: a folder of local wheels is handed over.
FIND_LINKS = $${UV_FIND_LINKS:-$${PIP_FIND_LINKS:-$$($(BIN)/python -m pip config get global.find-links 2>/dev/null)}}

# An environment that came along with a copy of the folder still runs the code of the folder it was made for.
made-here:
	@test ! -s $(STAMP) || test "$$(cat $(STAMP))" = "$(CURDIR)" \
	  || { echo ".venv was made in $$(cat $(STAMP)), and runs the code there. Remove it (rm -r .venv), and make a new one: make $(MAKECMDGOALS)"; exit 1; }

$(STAMP): pyproject.toml constraints.txt | made-here
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' 2>/dev/null \
	  || { echo "Python 3.11 to 3.14 is needed; name one with: make PYTHON=/path/to/python $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null \
	  || { echo "This Python cannot make virtual environments: install its venv package (on Debian and Ubuntu: python3-venv)."; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv==0.13.8
	@echo "Installing lwcore and its tools into .venv"
	@UV_FIND_LINKS=$(FIND_LINKS) \
	  VIRTUAL_ENV=.venv $(BIN)/uv pip install --quiet -c constraints.txt -e '.[book,test]'
	@echo '$(CURDIR)' > $@
	@$(BIN)/python -c 'import torch._dynamo' &  # compiled while Sphinx starts: kernels take it from there

# A page that warned would not be read again, and the next build would pass: after a failure all pages are read afresh.
book: $(STAMP) ## build the book into _build/html (warnings are errors)
	$(BIN)/jupyter-book build . --toc book/_toc.yml -W --keep-going -n || { rm -rf _build/.doctrees; exit 1; }
	@echo "The book is in _build/html/index.html"

pdf: book ## print the whole book into _build/pdf (needs Chromium or Chrome)
	$(BIN)/python -m book.pdf

PORT ?= 8000

live: $(STAMP) ## serve the book on this machine while it is edited; saved pages are written anew (PORT=8001: there)
	@$(BIN)/python -m book.live --port $(PORT)

lab: $(STAMP) ## edit chapters in JupyterLab, which then changes what was edited and nothing else
	@UV_FIND_LINKS=$(FIND_LINKS) VIRTUAL_ENV=.venv $(BIN)/uv pip install --quiet -c constraints.txt jupyterlab
	$(BIN)/jupyter lab --ContentsManager.allow_hidden=True

# The modules that take longest begin first: `conftest.py` lists them.
SIDE_BY_SIDE := -n 2 --dist loadscope --no-loadscope-reorder

READ_THE_BOOK := tests/pages tests/test_equations.py tests/test_notebook_files.py tests/test_ways_in.py

style: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	PYTHONPATH=. $(BIN)/lint-imports --no-cache
	$(BIN)/mypy

check: style ## check style, types, layers and the package alone: no notebook, no page, no browser
	HYPOTHESIS_PROFILE=few $(BIN)/python -m pytest lwcore tests $(patsubst %,--ignore %,$(READ_THE_BOOK)) -m "not slow and not interruption" $(SIDE_BY_SIDE)

test: book ## check everything: style, package, notebooks and built pages
	$(BIN)/python -m pytest $(SIDE_BY_SIDE)

prose: $(STAMP) ## list what an editor may want to change in the pages (it never fails)
	@$(BIN)/python -m book.prose

LOWEST := VIRTUAL_ENV=_build/lowest UV_FIND_LINKS=$(FIND_LINKS) $(BIN)/uv
TESTS_OF_RUNS := $(patsubst %,tests/test_%.py,cells cli config diagnose experiment kernels refusals results signatures stable_law stats)

# Newer libraries below them warn that older ones use what will go.
lowest: $(STAMP) ## try the package with the oldest libraries that pyproject.toml allows (some ten minutes)
	mkdir -p _build
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python _build/lowest
	$(LOWEST) pip compile --quiet --extra all --resolution lowest-direct pyproject.toml -o _build/lowest.txt
	$(LOWEST) pip install --quiet -r _build/lowest.txt
	$(LOWEST) pip install --quiet --no-deps -e .
	$(LOWEST) pip install --quiet -c _build/lowest.txt beautifulsoup4 distributed hatchling hypothesis jupyter-cache jupytext mpmath nbval pytest pyyaml
	_build/lowest/bin/python -m pytest -W ignore::DeprecationWarning lwcore $(TESTS_OF_RUNS)

# Compiled code is invisible to the tracer: the kernels run once more as the plain Python they are written in.
coverage: $(STAMP) ## measure which branches of lwcore the tests run, and record it (fails under 95 %)
	mkdir -p _build
	NUMBA_DISABLE_JIT=1 LWCORE_COMPILED=1 $(BIN)/python -m pytest tests/test_kernels.py -k "either_way or twice" --cov --cov-report= --cov-fail-under=0
	$(BIN)/python -m pytest lwcore tests $(patsubst %,--ignore %,$(READ_THE_BOOK)) $(SIDE_BY_SIDE) --cov --cov-append --cov-report=term
	$(BIN)/python -m benchmarks.coverage

mutants: $(STAMP) ## change the code in small ways, see whether the tests notice, and record it (an hour or two)
	UV_FIND_LINKS=$(FIND_LINKS) \
	  VIRTUAL_ENV=.venv $(BIN)/uv pip install --quiet -c constraints.txt -e '.[mutation]'
	$(BIN)/python -m benchmarks.mutation

bench: $(STAMP) ## time and record training steps, rates, stable laws and fits (some ten minutes)
	$(BIN)/python -m benchmarks.steps
	$(BIN)/python -m benchmarks.transport
	$(BIN)/python -m benchmarks.stable

# This tool comes from the registry for the moment, and is not part of .venv.
sbom: $(STAMP) ## list everything that is installed, with licences, in CycloneDX's format, in _build/sbom.json
	@mkdir -p _build
	$(BIN)/uvx --quiet --from cyclonedx-bom==7.5.0 cyclonedx-py environment --output-reproducible --pyproject pyproject.toml -o _build/sbom.json $(BIN)/python

references: $(STAMP) ## record the reference outputs of notebook cells afresh
	$(BIN)/python -m pytest notebooks book --refresh-references

format: $(STAMP) ## mend what ruff can mend, and write chapters as Jupyter would save them
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/jupytext --quiet --to md:myst notebooks/*.md

# One lock for every platform: no address, no hash, a released torch without a local suffix, and none of torch's GPU wheels
# (torch pins those itself). Local wheel folders are hidden, because uv would lock what it finds there.
lock: $(STAMP) ## resolve constraints.txt afresh
	echo 'torch==2.13.0' | env -u UV_FIND_LINKS -u PIP_FIND_LINKS $(BIN)/uv pip compile pyproject.toml -c - --all-extras --universal \
	  --python-version 3.11 --prerelease disallow --no-annotate --no-header --upgrade --quiet \
	  | grep -vE '^(cuda-|nvidia-|triton==)' > constraints.new
	mv constraints.new constraints.txt

clean: ## remove what was built (the virtual environment stays)
	rm -rf _build dist .pytest_cache .ruff_cache .mypy_cache
