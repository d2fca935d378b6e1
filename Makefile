# make demo:  set everything up, and see it work.      make docs:  the documentation, as a site.
# make check: the quick checks, about a minute.        make bench: the speed of the method.
# make test:  everything, with coverage.               make clean: remove what these made.
# make endure: attack it for an hour.
PYTHON ?= python3
BIN := .venv/bin
PYTEST := OPENBLAS_NUM_THREADS=1 $(BIN)/pytest -n auto --maxprocesses 4 --dist loadfile  # a core each
QUICK := not browser and not process and not slow

.PHONY: demo lint check test endure docs bench clean

demo: .venv/demo
	$(BIN)/python examples/demo.py

lint: .venv/dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	tools/check-page.sh  # says so and goes on where there is no Node.js

check: lint
	$(PYTEST) -m "$(QUICK)"

test: lint  # without the variable scikit-learn skips one of its checks; a browser takes a core
	SCIPY_ARRAY_API=1 $(PYTEST) --cov --cov-report= --cov-fail-under=0 -m "not browser"
	$(BIN)/pytest --cov --cov-append -n auto --maxprocesses 2 -m "browser and not long" tests/page

endure: .venv/dev
	cd tests && ../$(BIN)/python -m endurance $(ARGUMENTS)  # such as ARGUMENTS=--short

docs: .venv/docs
	$(BIN)/mkdocs build --strict

bench: .venv/bench
	$(BIN)/python study/benchmarks/speed.py

# An environment is made again when what it is made from has changed.
.venv/%: pyproject.toml study/pyproject.toml src/cbcl/method/centroids/_kernel.c
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --editable ".[$*]" $(if $(filter dev bench,$*),--editable study)
	touch $@

clean:
	rm -rf .venv build dist .coverage src/*.egg-info src/cbcl/method/centroids/*.so
