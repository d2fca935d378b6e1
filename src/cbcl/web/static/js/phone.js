// @ts-check
// Other devices: the links with their codes, what a phone says of the certificate, new links.

import { get, post } from "./api.js";
import { openDialog } from "./dialogs.js";
import { find, isLookOnly, make } from "./dom.js";
import { attempt, notify, notifyError } from "./toasts.js";
import { say, sayNodes } from "./words.js";

/** @import { Access } from "./types.d.ts" */

const AUTHORITY = "/cbcl-authority.crt";
const TEACHING_KEYS = " nxyz"; // which teach, or undo

/** @type {Access | null} */
let access = null;
let codes = 0; // drawn so far: no code of old links is taken from the browser's memory

export function setUpPhone() {
  find("phone-button").addEventListener("click", openPhone);
  find("phone-role").addEventListener("change", drawLink);
  find("phone-copy").addEventListener("click", copyLink);
  find("phone-renew").addEventListener("click", () => askToRenew(true));
  find("phone-renew-no").addEventListener("click", () => askToRenew(false));
  find("phone-renew-yes").addEventListener("click", renew);
}

/** Who may look only is offered nothing else; css/phone.css hides the rest. */
export function setUpLookOnly() {
  if (!isLookOnly()) return;
  const stop = (/** @type {Event} */ event) => event.stopImmediatePropagation();
  const isTeaching = (/** @type {KeyboardEvent} */ { key }) =>
    TEACHING_KEYS.includes(key.toLowerCase());
  window.addEventListener("keydown", (event) => isTeaching(event) && stop(event), true);
  find("cards").addEventListener("dblclick", stop, true); // which renames
}

async function openPhone() {
  find("menu").hidePopover();
  access = (await attempt(() => get("/api/access"))) ?? null;
  if (!access) return;
  find("phone-alone").hidden = access.network;
  find("phone-links").hidden = !access.network;
  find("phone-command").textContent = access.command;
  find("phone-plain").hidden = access.fingerprint !== null;
  find("phone-warning").hidden = access.authority === null;
  find("phone-fingerprint").textContent = access.fingerprint;
  find("phone-authority").textContent = access.authority;
  const link = make("a", { href: AUTHORITY }, say("phone.trust_link"));
  find("phone-trust").replaceChildren(...sayNodes("phone.trust_help", { link }));
  find("phone-sure").hidden = true;
  drawLink();
  openDialog("phone-dialog");
}

/** @returns {"full" | "view"} */
function chosenRole() {
  const view = find("phone-role").querySelector("input[value=view]:checked");
  return view ? "view" : "full";
}

function drawLink() {
  if (!access?.network) return;
  codes += 1;
  find("phone-code").src = `/api/access/code.svg?link=${chosenRole()}&drawn=${codes}`;
  find("phone-note").textContent = say(`phone.${chosenRole()}_note`);
}

async function copyLink() {
  const link = access?.links[chosenRole()] ?? "";
  try {
    await navigator.clipboard.writeText(link);
    notify(say("phone.copied"));
  } catch {
    notifyError(say("phone.not_copied", { link })); // over plain http, or not allowed
  }
}

/** @param {boolean} asked */
function askToRenew(asked) {
  find("phone-sure").hidden = !asked;
  find(asked ? "phone-renew-yes" : "phone-renew").focus();
}

/** Make new links: this page goes on with the new ones. */
async function renew() {
  const told = await attempt(() => post("/api/access/renew"));
  if (!told) return;
  access = told;
  drawLink();
  askToRenew(false);
  notify(say("phone.renewed"));
}
