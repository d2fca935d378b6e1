# make demo: set everything up and see it work.  make test: set everything up and check everything.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test bench clean

demo: .venv/demo
	$(BIN)/python examples/demo.py

test: .venv/dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	SCIPY_ARRAY_API=1 $(BIN)/pytest  # else scikit-learn leaves out one of its own checks

bench: .venv/bench
	$(BIN)/python benchmarks/speed.py

# An environment is made anew when what it is made from has changed.
.venv/%: pyproject.toml src/cbcl/method/_kernel.c
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --editable ".[$*]"
	touch $@

clean:
	rm -rf .venv build src/*.egg-info src/cbcl/method/*.so
