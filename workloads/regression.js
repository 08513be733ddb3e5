// Twelve functions of fixed work, one of which is called FACTOR times as often; TURNS times. Calls, not iterations: a bound
// of 8e6 * 1.25 is a double where 8e6 * 1 is a small integer, and V8's loop over a double is 6 % cheaper. Short calls: a long
// one runs in code compiled for on-stack replacement in some processes and not in others, and costs twice as much there.
const factor = Number(process.env.FACTOR ?? 1);
const turns = Number(process.env.TURNS ?? 40);

function hashInts(n) { let hash = 0; for (let i = 0; i < n; i += 1) hash = (Math.imul(hash, 31) + i) | 0; return hash; }
function roots(n) { let sum = 0; for (let i = 0; i < n; i += 1) sum += Math.sqrt(i); return sum; }
function letters(n) { let text = ''; for (let i = 0; i < n; i += 1) text += String.fromCharCode(65 + i % 26); return text.length; }
function sorted(n) { const list = []; for (let i = 0; i < n; i += 1) list.push(i * 7919 % 1009); return list.sort((a, b) => a - b)[0]; }
function mapped(n) { const map = new Map(); for (let i = 0; i < n; i += 1) map.set(i % 997, i); return map.size; }
function serialized(n) { const rows = []; for (let i = 0; i < n; i += 1) rows.push({ i }); return JSON.stringify(rows).length; }
function collatz(n) { let steps = 0; for (let i = 1; i < n; i += 1) for (let k = i; k > 1; steps += 1) k = k % 2 ? 3 * k + 1 : k / 2; return steps; }
function primes(n) { let found = 0; for (let i = 2; i < n; i += 1) { let d = 2; while (d * d <= i && i % d) d += 1; if (d * d > i) found += 1; } return found; }
function bytes(n) { const data = new Uint8Array(n); for (let i = 0; i < n; i += 1) data[i] = i * 13; return data[n - 1]; }
function digits(n) { let sum = 0; for (let i = 0; i < n; i += 1) for (let k = i; k > 0; k = Math.floor(k / 10)) sum += k % 10; return sum; }
function matched(n) { let found = 0; for (let i = 0; i < n; i += 1) if (/(\d+)-(\d+)/.test(`a${i}-${i + 1}`)) found += 1; return found; }
function cloned(n) { let size = 0; for (let i = 0; i < n; i += 1) size += Object.keys({ ...{ a: 1, b: 2, c: i } }).length; return size; }

for (let turn = 0; turn < turns; turn += 1) {
    for (let call = 0; call < Math.round(500 * factor); call += 1) hashInts(1e4);
    roots(2e6);
    letters(1e5);
    sorted(2e4);
    mapped(2e5);
    serialized(1e4);
    collatz(2e4);
    primes(5e4);
    bytes(4e6);
    digits(4e5);
    matched(4e4);
    cloned(4e4);
}
