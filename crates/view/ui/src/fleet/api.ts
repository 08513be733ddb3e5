// What the server answers.

export interface Version {
  version: string;
  first: number;
  last: number;
  instances: number;
}

export interface Instance {
  instance: string;
  first: number;
  last: number;
  labels: Record<string, string>;
}

export interface Service {
  service: string;
  events: string[];
  versions: Version[];
  instances: Instance[];
  marks: { version: string; time: number }[];
}

export interface Series {
  start: number;
  step: number;
  series: { labels: Record<string, string>; weights: number[] }[];
  missing_hours: number;
}

export interface Regression {
  function: string;
  file: string;
  line: number;
  version: string;
  before_version: string;
  change: number;
  interval: [number, number] | null;
  verdict: string;
}

export interface Judged {
  regressions: Regression[];
  comparisons: { version: string; before_version: string; remarks: string[]; smallest_seen: number | null }[];
}

export type Parameters = Record<string, string | number | undefined>;

// The address of a question; what is empty is left out.
export function address(path: string, parameters: Parameters): string {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(parameters)) {
    if (value !== undefined && value !== "") query.set(key, String(value));
  }
  return `${path}?${query}`;
}

export async function ask<T>(path: string, parameters: Parameters): Promise<T> {
  const answer = await fetch(address(path, parameters));
  if (!answer.ok) throw new Error((await answer.text()).trim() || answer.statusText);
  return (await answer.json()) as T;
}
