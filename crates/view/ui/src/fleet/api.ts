// What the server answers.

export interface Version {
  version: string;
  first: number;
  last: number;
  instances: number;
}

export interface Service {
  service: string;
  versions: Version[];
  marks: { version: string; time: number }[];
}

export interface Series {
  start: number;
  step: number;
  series: { labels: Record<string, string>; weights: number[] }[];
  missing_hours: number;
}

// What is odd about an instance; a function where its kind is that.
export interface Odd {
  kind: "cpu" | "function";
  function?: string;
  sentence: string;
}

export interface Instance {
  instance: string;
  version: string;
  cores: number;
  seconds: number;
  judged: boolean;
  odd: Odd[];
}

export interface Instances {
  instances: Instance[];
  left_off: number;
  missing_hours: number;
}

type Ends = [number, number];

export interface Regression {
  service: string;
  function: string;
  file: string;
  line: number;
  version: string;
  before_version: string;
  since: number;
  change: number;
  interval: Ends | null;
  verdict: string;
  // Servers of other versions may not say these.
  callers?: { function: string }[];
  first_seen?: number;
  last_seen?: number;
}

export interface Comparison {
  service: string;
  version: string;
  before_version: string;
  concurrent: boolean;
  compared?: { before: Ends; after: Ends };
  remarks: string[];
  smallest_seen: number | null;
}

export interface Judged {
  regressions: Regression[];
  comparisons: Comparison[];
}

export type Parameters = Record<string, string | number | undefined>;

// The address of a question; what is empty is left out.
export function address(path: string, parameters: Parameters): string {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(parameters)) {
    if (value !== undefined && value !== "") query.set(key, String(value));
  }
  const text = query.toString();
  return text ? `${path}?${text}` : path;
}

export async function ask<T>(path: string, parameters: Parameters): Promise<T> {
  const answer = await fetch(address(path, parameters));
  if (!answer.ok) throw new Error((await answer.text()).trim() || answer.statusText);
  return (await answer.json()) as T;
}
