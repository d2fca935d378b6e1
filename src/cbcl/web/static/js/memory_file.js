// @ts-check
// Memory files, told from others by their first bytes; the server checks the rest.

import { say } from "./words.js";

const MAGIC = "SQLite format 3\0";
const ID = "CBCL"; // of the application, in the header of its databases
const ID_OFFSET = 68;

/**
 * Say why a file cannot be a memory; null if it may be one.
 * @param {File} file
 * @returns {Promise<string | null>}
 */
export async function findMemoryProblem(file) {
  const { name } = file;
  if (file.size === 0) return say("errors.empty", { name });
  const bytes = await file.slice(0, ID_OFFSET + ID.length).arrayBuffer().catch(() => null);
  if (!bytes) return say("errors.unreadable", { name });
  const header = new TextDecoder("latin1").decode(bytes);
  const isMemory = header.startsWith(MAGIC) && header.slice(ID_OFFSET) === ID;
  return isMemory ? null : say("errors.no_memory", { name });
}
