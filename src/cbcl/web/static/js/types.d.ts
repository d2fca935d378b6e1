// Shapes that several modules share: answers of the API, pictures, and elements by their id.

export interface Guess {
  label: string;
  confidence: number;
}

export interface Reason {
  label: string;
  examples: number[];
}

/** Pictures that were learned, and words for what they say: of a label, if it is to be named. */
export interface ReasonRow {
  words: string;
  named: boolean;
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
}

export type AnswerKind = "waiting" | "nothing" | "unknown" | "known";

export interface Failure {
  error: { kind: string; message: string };
}

export interface Answers {
  answers: (Answer | Failure)[];
  order: number[];
}

export interface Problem {
  picture: string;
  message: string;
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
}

export interface Thing {
  label: string;
  examples: number;
  shown: number[];
}

export interface Labels {
  revision: number;
  private: boolean;
  labels: Thing[];
  head: "discriminant" | "vote" | null;
  negatives: { examples: number; shown: number[] } | null;
}

/** Outcome of teaching: numbers of pictures; those that were moved by the label they had. */
export interface Learned {
  learned: number;
  copies: number;
  moved: Record<string, number>;
}

export interface Health {
  memory: string;
  backbone: { name: string; problem: string | null };
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

export interface Wanted {
  label: string;
  reason: string;
}

export interface Advice {
  alike: Alike[];
  more: Wanted[];
}

export interface Miss {
  example: number;
  label: string;
  answer: string | null;
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

/** What each address answers to a GET. */
export interface GetResponses {
  "/api/advice": Advice;
  "/api/health": Health;
  "/api/history": { steps: Step[] };
  "/api/labels": Labels;
  "/api/negatives": Examples;
  "/api/scores": Scores;
  "/api/version": { cbcl: string };
  [path: `/api/examples?label=${string}`]: Examples;
}

interface Changed {
  revision: number;
  done: { text: string };
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
  "/api/examples": LearnedResponse;
  "/api/negatives": LearnedResponse;
  "/api/forget": Changed;
  "/api/import": { added: string[]; joined: string[]; revision: number };
  "/api/merge": Changed;
  "/api/recognize": Answer;
  "/api/recognize-many": Answers;
  "/api/rename": Changed;
  "/api/undo": Changed;
}

/** Classes of the elements that are more than an HTMLElement; tests/page compares them with the HTML. */
export interface Elements {
  "camera-choice": HTMLSelectElement;
  "camera-start": HTMLButtonElement;
  "correction-name": HTMLInputElement;
  "discard": HTMLButtonElement;
  "examples-dialog": HTMLDialogElement;
  "export": HTMLAnchorElement;
  "filter": HTMLInputElement;
  "import-file": HTMLInputElement;
  "keys-dialog": HTMLDialogElement;
  "keys-on": HTMLInputElement;
  "merge-dialog": HTMLDialogElement;
  "merge-form": HTMLFormElement;
  "merge-into": HTMLSelectElement;
  "name": HTMLInputElement;
  "photo": HTMLInputElement;
  "pick": HTMLInputElement;
  "progress-bar": HTMLProgressElement;
  "still": HTMLImageElement;
  "subject": HTMLImageElement;
  "teach-button": HTMLButtonElement;
  "undo": HTMLButtonElement;
  "video": HTMLVideoElement;
}
