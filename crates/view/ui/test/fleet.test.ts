// What the page of `nodespy serve` has in its address and asks its server.

import assert from "node:assert/strict";
import { test } from "node:test";
import { address } from "../src/fleet/api";
import { chooseBaseRange } from "../src/fleet/compare";
import {
  addressOf,
  baseParameters,
  choiceOf,
  deployments,
  noChoice,
  readState,
  type State,
  selection,
} from "../src/fleet/state";

const NOW = 1_000_000;
const SHOWN: [number, number] = [NOW - 3600, NOW];
const VERSIONS = [
  { version: "1.0", first: NOW - 90_000, last: NOW - 1000, instances: 3 },
  { version: "2.0", first: NOW - 2000, last: NOW, instances: 3 },
];
const usual = { length: 3600, service: "shop", warmUp: "", minLength: "" };
const state = (part: Partial<State>): State => ({ ...noChoice(), ...usual, ...part });

test("a link shows what was chosen", () => {
  for (const part of [
    {},
    { version: "2.0", role: "main", instance: "web-1/7", query: "parse & go" },
    { against: "day", selected: [NOW - 100, NOW - 50] },
    { against: "siblings", instance: "web-1/7" },
    { against: "version", base: "1.0", baseRange: [NOW - 900, NOW - 800] },
    { against: "range", selected: [NOW - 100, NOW - 50], baseRange: [NOW - 900, NOW - 800] },
    { warmUp: "20", minLength: "60" },
  ] as Partial<State>[]) {
    const written = address("/", addressOf(state(part)));
    assert.deepEqual(readState(new URL(written, "http://host").search, NOW), state(part));
  }
});

test("a link without a range shows all that it has chosen", () => {
  const length = (search: string) => readState(search, NOW).length;
  assert.equal(length("?service=shop"), 3600);
  assert.equal(length(`?from=${NOW - 4000}&until=${NOW - 50}`), 21_600);
  assert.equal(
    length(`?from=${NOW - 400}&until=${NOW}&base.from=${NOW - 90_000}&base.until=${NOW - 5}`),
    604_800,
  );
  assert.equal(length("?from=5&until=9"), 2_592_000);
  // What makes no sense is left out.
  assert.equal(readState("?from=9&until=5&against=nobody", NOW).against, "");
});

test("a base is another time, another version or the siblings", () => {
  const base = (part: Partial<State>) => {
    const asked = baseParameters(state(part), SHOWN, VERSIONS);
    return Object.fromEntries(Object.entries(asked).filter(([, value]) => value !== undefined));
  };
  const ends = (from: number, until: number) => ({ "base.from": from, "base.until": until });
  const selected: [number, number] = [NOW - 100, NOW - 50];
  assert.deepEqual(base({}), {});
  assert.deepEqual(base({ against: "before", selected }), ends(NOW - 150, NOW - 100));
  assert.deepEqual(base({ against: "day", selected }), ends(NOW - 86_500, NOW - 86_450));
  // Yesterday the version was not there yet.
  assert.deepEqual(base({ against: "day", selected, version: "2.0" }), {
    "base.version": "*",
    ...ends(NOW - 86_500, NOW - 86_450),
  });
  assert.deepEqual(base({ against: "version", base: "1.0", instance: "web-1/7" }), {
    "base.version": "1.0",
    "base.instance": "*",
    ...ends(...SHOWN),
  });
  assert.deepEqual(base({ against: "siblings", instance: "web-1/7", selected }), {
    "base.instance": "*",
    ...ends(...selected),
  });
});

test("deployments are judged as the address says, whatever is chosen then", () => {
  const linked = readState("?warm_up=20&min_length=60", NOW);
  const asked = (of: State) => address("/", deployments(of, [1, 2]));
  assert.equal(asked(linked), "/?from=1&until=2&warm_up=20&min_length=60");
  const chosen = { ...linked, ...noChoice(), service: "shop" };
  assert.equal(asked(chosen), "/?service=shop&from=1&until=2&warm_up=20&min_length=60");
  // The server knows what is usual.
  assert.equal(asked(state({})), "/?service=shop&from=1&until=2");
});

test("a range to compare with leaves the rest selected", () => {
  const chosen = state({});
  chooseBaseRange(chosen, [NOW - 3000, NOW - 2500], SHOWN);
  assert.equal(chosen.against, "range");
  assert.deepEqual(chosen.selected, [NOW - 2500, NOW]);
  chooseBaseRange(chosen, undefined, SHOWN);
  assert.equal(chosen.against, "");
});

test("a regression is shown where it was found", () => {
  const found = {
    service: "shop",
    function: "parse",
    file: "",
    line: 0,
    version: "2.0",
    before_version: "1.0",
    since: NOW - 2000,
    change: 1.25,
    interval: null,
    verdict: "regression",
  };
  const judged = { ...found, concurrent: true, remarks: [], smallest_seen: 1.1 };
  const shown = (part: object) => {
    const choice = choiceOf(found, { ...judged, ...part }, VERSIONS, SHOWN);
    return { ...state({}), ...choice };
  };
  const together = shown({});
  assert.deepEqual(together.selected, [NOW - 2000, NOW - 1000]);
  assert.deepEqual(together.baseRange, together.selected);
  assert.equal(together.query, "parse");
  assert.deepEqual(selection(together, SHOWN).version, "2.0");
  const apart = shown({ concurrent: false });
  assert.deepEqual(
    [apart.selected, apart.baseRange],
    [
      [NOW - 2000, NOW],
      [NOW - 3600, NOW - 2000],
    ],
  );
  const said = shown({ compared: { before: [1, 2], after: [3, 4] } });
  assert.deepEqual(
    [said.selected, said.baseRange],
    [
      [3, 4],
      [1, 2],
    ],
  );
});
