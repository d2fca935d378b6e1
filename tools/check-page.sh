#!/usr/bin/env bash
# Check the JavaScript of the page: types (tsc), lint (eslint), unit tests (node); no build.
# Without node, npm or the packages it is skipped with one line; with CBCL_NODE=required it fails.
set -euo pipefail
cd "$(dirname "$0")/.."

skip() {
  echo "SKIPPED: the page's JavaScript is not checked: $1" >&2
  [ "${CBCL_NODE:-}" = required ] && exit 1
  exit 0
}

command -v node >/dev/null || skip "node is not here (on Debian: apt install nodejs npm)"
[ "$(printf '%s\n' v20.19.0 "$(node --version)" | sort -V | head -1)" = v20.19.0 ] ||
  skip "node $(node --version) is older than 20.19"
if ! cmp -s package-lock.json node_modules/.checked-lock.json; then
  command -v npm >/dev/null || skip "npm is not here (on Debian: apt install npm)"
  npm ci --silent --ignore-scripts >/dev/null 2>&1 || skip "npm ci failed: run it to see why"
  cp package-lock.json node_modules/.checked-lock.json
fi
node_modules/.bin/tsc -p jsconfig.json
node_modules/.bin/eslint --max-warnings 0 src/cbcl/web/static/js src/cbcl/export/static tests/page tests/export \
  eslint.config.js
node --test --test-reporter=dot tests/page/*.test.js tests/export/*.test.js
echo "the page's JavaScript: types, lint and unit tests are fine"
