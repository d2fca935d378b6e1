// Types that the modules of the app share.

export interface LargeFile {
  file: string;
  bytes: number;
}

export interface AppDescription {
  cbcl: string;
  name: string;
  labels: string[];
  at_least: number; // pixels a side that are enough
  languages: Record<string, "ltr" | "rtl">;
  model: LargeFile;
  runtime: LargeFile;
  examples: (LargeFile & { labels: string[]; sizes: number[] }) | null;
}

export interface Pixels {
  data: Uint8Array; // RGB
  width: number;
  height: number;
}

export interface Guess {
  label: string;
  confidence: number;
}

export interface Answer {
  label: string | null; // null: unknown
  confidence: number;
  ranking: Guess[]; // the likeliest first
  distances: Float32Array | null; // to the examples
}

export interface Model {
  recognize(pixels: Pixels): Promise<Answer>;
  exampleLabels: string[];
  exampleUrls: string[];
}
