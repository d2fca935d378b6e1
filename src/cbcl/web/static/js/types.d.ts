// Shapes that several modules share: answers of the API, pictures, and elements by their id.

export interface Guess {
  label: string;
  confidence: number;
}

export interface Reason {
  label: string;
  examples: number[];
}

/** Pictures of a label that were learned, and the key of words for what they say. */
export interface ReasonRow {
  words: string;
  label: string;
  examples: number[];
}

/** An answer about one picture; label null: unknown; confidence null: nothing is known at all. */
export interface Answer {
  seen: string;
  label: string | null;
  confidence: number | null;
  ranking: Guess[];
  evidence: Reason[];
  revision: number;
  taught?: string | null;
}

/** An example that speaks for an answer, and the answer without it. */
export interface Suspect {
  example: number;
  label: string | null;
  confidence: number | null;
}

export type AnswerKind = "waiting" | "nothing" | "unknown" | "known";

export interface Failure {
  error: { kind: string; message: string; problem?: string | null };
}

export interface Answers {
  answers: (Answer | Failure)[];
  order: number[];
}

/** A picture that cannot be used, and why; problem is the reason without its name. */
export interface Problem {
  picture: string;
  message: string;
  problem?: string | null;
}

/** A picture to send; seen is the digest by which the server knows it, once it was asked about. */
export interface Picture {
  name: string;
  blob: Blob;
  seen: string | null;
  live?: boolean;
  url?: string;
  key?: number;
}

/** A picture in the tray, known by its key: it is replaced, never changed. */
export interface TrayPicture extends Picture {
  key: number;
  url: string;
  answer: Answer | null;
  chosen: boolean;
  skipped: boolean;
  rank: number;
  folder: string | null;
  denied: string[];
  inbox: boolean;
}

/** Pictures that nobody has named, and that look alike; the id stays while most of them do. */
export interface AlikeGroup {
  id: number;
  keys: number[];
}

/** A label with its examples; changed is larger for one that was changed later. */
export interface Thing {
  label: string;
  examples: number;
  shown: number[];
  changed?: number;
}

export interface Labels {
  revision: number;
  private: boolean;
  labels: Thing[];
  abilities: Ability[];
  negatives: { examples: number; shown: number[] } | null;
  strangers: HowOften | null;
}

/** What the memory can do beside learning and answering. */
export type Ability = "centroids" | "copies" | "limit" | "negatives" | "strangers" | "suspects" | "tune" | "upgrade";

/** How often something unknown is to be expected. */
export type HowOften = "often" | "sometimes" | "rarely";

/** A normal distribution of the score. */
export interface Distribution {
  mean: number;
  deviation: number;
}

/** What a setting does with the photos kept: as if not taught, and as if their things were not. */
export interface Forecast {
  known: number;
  refused: number;
  strange: number;
  found: number;
}

/** What decides between known and unknown: a score below the limit is unknown. */
export interface UnknownReport {
  known: Distribution;
  strange: Distribution;
  limit: number;
  known_scores: number[];
  strange_scores: number[];
  forecasts: Record<HowOften, Forecast>;
}

/** Outcome of teaching: numbers of pictures; those that were moved by the label they had. */
export interface Learned {
  learned: number;
  copies: number;
  moved: Record<string, number>;
}

export interface Health {
  memory: string;
  backbone: {
    name: string;
    ready: boolean;
    problem: string | null;
    looks_at: { square: number; squashed: boolean } | null;
  };
}

export interface Examples {
  examples: number;
  kept: { example: number; concept: number }[];
}

export interface Step {
  step: number;
  time: string;
  action: string;
  text: string;
  undone: boolean;
  next: boolean;
}

export interface Alike {
  label: string;
  other: string;
}

export interface Advice {
  alike: Alike[];
}

export interface Miss {
  example: number;
  label: string;
  answer: string | null;
}

/** Outcome of the self-test for one label; tested 0: it has a single example. */
export interface Tested {
  label: string;
  tested: number;
  recognized: number;
  wrong: Miss[];
}

export interface Scores {
  revision: number;
  labels: string[];
  matrix: number[][];
  asked: number;
  right: number;
  unknown: number;
  wrong: Miss[];
  problem: string | null;
}

/** How other devices get to this server. */
export interface Access {
  network: boolean;
  command: string;
  links: { full?: string; view?: string };
  fingerprint: string | null;
  authority: string | null;
}

/** A memory of the folder; things null: it cannot be read; changed null: there is no file yet. */
export interface MemoryEntry {
  name: string;
  things: number | null;
  changed: string | null;
  problem: string | null;
}

/** The memories that can be opened; several: there may be others than the one that is open. */
export interface Memories {
  open: string;
  several: boolean;
  memories: MemoryEntry[];
}

interface Opened {
  memory: string;
  revision: number;
}

interface Restored {
  kept: string | null;
  revision: number;
}

/** What each address answers to a GET. */
export interface GetResponses {
  "/api/access": Access;
  "/api/advice": Advice;
  "/api/health": Health;
  "/api/history": { steps: Step[] };
  "/api/inbox": { photos: string[]; watched: boolean };
  "/api/labels": Labels;
  "/api/memories": Memories;
  "/api/negatives": Examples;
  "/api/scores": Scores;
  "/api/unknown": { revision: number; report: UnknownReport | null };
  "/api/self-test": { revision: number; labels: Tested[] };
  [path: `/api/examples?label=${string}`]: Examples;
  [path: `/api/similar?label=${string}`]: { similar: string[] };
}

export interface Changed {
  revision: number;
  done: { text: string };
  undone: Undone | null;
}

/** A step that was undone; of a rename, merge or move, the last label is the one it led to. */
export interface Undone {
  action: string;
  text: string;
  labels: string[];
}

interface LearnedResponse {
  learned: Record<string, number>;
  copies: Record<string, number>;
  moved: Record<string, number>;
  problems: Problem[];
  revision: number;
}

/** What each address answers to a POST. */
export interface PostResponses {
  "/api/access/renew": Access;
  "/api/examples": LearnedResponse;
  "/api/negatives": LearnedResponse;
  "/api/forget": Changed;
  "/api/group": { groups: string[][] };
  "/api/learn-many": LearnedResponse;
  "/api/import": { added: string[]; joined: string[]; revision: number };
  "/api/memories": Opened;
  "/api/memories/duplicate": { memory: string };
  "/api/memories/open": Opened;
  "/api/memories/restore": Restored;
  "/api/memories/undo-restore": Restored;
  "/api/merge": Changed;
  "/api/move": { moved: Record<string, number>; copies: number; revision: number };
  "/api/recognize": Answer;
  "/api/recognize-many": Answers;
  "/api/suspects": { suspects: Suspect[] };
  "/api/rename": Changed;
  "/api/undo": Changed;
  "/api/unlearn": { removed: Record<string, number>; revision: number };
}

/** Classes of the elements that are more than an HTMLElement; tests/page compares them with the HTML. */
export interface Elements {
  "camera-choice": HTMLSelectElement;
  "camera-start": HTMLButtonElement;
  "discard": HTMLButtonElement;
  "examples-dialog": HTMLDialogElement;
  "export": HTMLAnchorElement;
  "filter": HTMLInputElement;
  "import-file": HTMLInputElement;
  "keys-dialog": HTMLDialogElement;
  "keys-on": HTMLInputElement;
  "memory-add-file": HTMLInputElement;
  "memory-download": HTMLAnchorElement;
  "memory-new": HTMLInputElement;
  "memory-restore-file": HTMLInputElement;
  "merge-button": HTMLButtonElement;
  "merge-dialog": HTMLDialogElement;
  "merge-filter": HTMLInputElement;
  "merge-form": HTMLFormElement;
  "move-dialog": HTMLDialogElement;
  "move-form": HTMLFormElement;
  "move-into": HTMLInputElement;
  "name": HTMLInputElement;
  "name-subject": HTMLImageElement;
  "phone-code": HTMLImageElement;
  "phone-dialog": HTMLDialogElement;
  "photo": HTMLInputElement;
  "pick": HTMLInputElement;
  "progress-bar": HTMLProgressElement;
  "present-video": HTMLVideoElement;
  "restore-dialog": HTMLDialogElement;
  "still": HTMLImageElement;
  "strangers": HTMLFieldSetElement;
  "subject": HTMLImageElement;
  "suspects-dialog": HTMLDialogElement;
  "suspects-subject": HTMLImageElement;
  "teach-button": HTMLButtonElement;
  "test-folder": HTMLInputElement;
  "test-pick": HTMLInputElement;
  "test-save": HTMLButtonElement;
  "undo": HTMLButtonElement;
  "video": HTMLVideoElement;
  "viewer-dialog": HTMLDialogElement;
  "viewer-image": HTMLImageElement;
  "viewer-select": HTMLInputElement;
}
