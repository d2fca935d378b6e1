// @ts-check
// The dialogs: open and close, with the messages in the one on top.

import { find } from "./dom.js";
import { placeToasts } from "./toasts.js";

/** @import { Elements } from "./types.d.ts" */

export function setUpDialogs() {
  for (const dialog of document.querySelectorAll("dialog")) {
    // A click beside it, and the crosses, are as Escape: a dialog may have something to ask first.
    dialog.addEventListener("click", ({ target }) => target === dialog && leaveDialog(dialog));
    dialog.addEventListener("close", placeToasts);
    for (const button of dialog.querySelectorAll("button.close")) {
      button.addEventListener("click", () => leaveDialog(dialog));
    }
  }
  find("keys-button").addEventListener("click", () => {
    find("menu").hidePopover();
    openDialog("keys-dialog");
  });
}

/**
 * Show a dialog; messages come along, since what is outside cannot be reached.
 * @param {Extract<keyof Elements, `${string}-dialog`>} id
 */
export function openDialog(id) {
  if (!find(id).open) find(id).showModal();
  placeToasts();
}

/** @param {HTMLDialogElement} dialog */
function leaveDialog(dialog) {
  const wish = new Event("cancel", { cancelable: true });
  if (dialog.dispatchEvent(wish)) dialog.close();
}
