// One test that computes, for jest and vitest: what it tests is a function of its own.
function slowSum(limit) {
    let sum = 0;
    for (let n = 0; n < limit; n += 1) sum = (sum * 31 + n) % 1_000_003;
    return sum;
}

test('sums', () => {
    for (const end = Date.now() + 4000; Date.now() < end;) expect(slowSum(1e6)).toBeGreaterThan(0);
});
