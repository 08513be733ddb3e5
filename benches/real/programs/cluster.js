// Four workers of which the third computes four times as much as the others.
const cluster = require('node:cluster');

function work(rounds) {
    let sum = 0;
    for (let round = 0; round < rounds * 1e6; round += 1) sum += Math.sqrt(round);
    return sum;
}

function turn(rounds) {
    work(rounds);
    setTimeout(turn, 40, rounds);
}

if (cluster.isPrimary) {
    for (let worker = 1; worker <= 4; worker += 1) cluster.fork({ ROUNDS: worker === 3 ? 16 : 4 });
    setTimeout(() => process.exit(0), 8000);
} else {
    turn(Number(process.env.ROUNDS));
}
