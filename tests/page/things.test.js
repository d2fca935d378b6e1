// Names that are spelled alike, and what is said of a test and of an undo; tools/check-page.sh runs this.

import assert from "node:assert/strict";
import test from "node:test";

import { describeUndone } from "../../src/cbcl/web/static/js/editing.js";
import { describeTested } from "../../src/cbcl/web/static/js/self_test.js";
import { findSpelledAlike } from "../../src/cbcl/web/static/js/spelling.js";
import { useWords } from "../../src/cbcl/web/static/js/words.js";

test("names that differ in case or space only are found, and a known name is itself", () => {
  const names = ["cup", "My bag", "Tasse"];
  assert.equal(findSpelledAlike(" Cup", names), "cup");
  assert.equal(findSpelledAlike("my  BAG ", names), "My bag");
  assert.equal(findSpelledAlike("cup ", names), null);
  assert.equal(findSpelledAlike("cups", names), null);
  assert.equal(findSpelledAlike("  ", ["", ...names]), null);
  assert.equal(findSpelledAlike("Cup", ["Cup", "cup"]), null);
});

test("of many photos only some are tested, and that is said", () => {
  const some = "of {all} tested";
  useWords({ "things.recognized": "{right} of {all}", "things.recognized_some": some }, "en");
  const tested = { label: "cup", tested: 8, recognized: 7, wrong: [] };
  assert.equal(describeTested(tested, 8), "7 of 8");
  assert.equal(describeTested(tested, 100), "of 8 tested");
});

test("an undo is told by what is so again", () => {
  const words = {
    "undo.forget": "{label} is back",
    "undo.rename": "{name} is {label} again",
    "undo.merge": "{label} and {into}",
    "undo.move": "back in {labels}",
    "undo.learn": "gone from {labels}",
    "undo.unlearn": "back: {labels}",
    "undo.adopt": "import",
    "undo.done": "{step}",
    none_of_these: "none",
  };
  useWords(words, "en");
  const undone = (action, ...labels) => describeUndone({ action, text: "text", labels });
  assert.equal(undone("forget", "cup"), "cup is back");
  assert.equal(undone("forget", ""), "none is back");
  assert.equal(undone("rename", "cup", "mug"), "mug is cup again");
  assert.equal(undone("merge", "mug", "cup"), "mug and cup");
  assert.equal(undone("move", "mug", "pot", "cup"), "back in mug, pot");
  assert.equal(undone("learn", "mug", ""), "gone from mug, none");
  assert.equal(undone("unlearn", "mug"), "back: mug");
  assert.equal(undone("adopt", "mug"), "import");
  assert.equal(undone("upgrade", "mug"), "text");
});
