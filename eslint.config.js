import js from "@eslint/js";
import globals from "globals";

export default [
  js.configs.recommended,
  {
    files: ["src/cbcl/{web,export}/static/js/*.js"],
    languageOptions: { globals: globals.browser },
    rules: {
      complexity: ["error", 13], // it counts each ?. and ?? as a branch
      curly: ["error", "multi-line"],
      eqeqeq: "error",
      "max-len": ["error", 100],
      "max-lines": ["error", { max: 300, skipBlankLines: true, skipComments: true }],
      "max-lines-per-function": ["error", 40],
      "no-var": "error",
      "prefer-const": "error",
    },
  },
  { files: ["src/cbcl/web/static/js/first_paint.js"], languageOptions: { sourceType: "script" } },
  {
    files: ["src/cbcl/export/static/service_worker.js"],
    languageOptions: { globals: globals.serviceworker, sourceType: "script" },
  },
  { files: ["tests/{page,export}/*.test.js"], languageOptions: { globals: globals.node } },
  { linterOptions: { reportUnusedDisableDirectives: "error" } },
];
