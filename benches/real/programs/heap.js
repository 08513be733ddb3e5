// A heap of about a gigabyte that grows and is collected again and again.
const kept = [];
let turn = 0;

function allocate() {
    for (let n = 0; n < 20_000; n += 1) kept[(turn * 20_000 + n) % 8_000_000] = { turn, n, next: [n] };
    turn += 1;
}

for (const end = Date.now() + 8000; Date.now() < end;) allocate();
