// A service with a steady load: twenty orders a second, each a fixed amount of work in eight functions of about the same
// weight, so that CPU time changes only when the code does, and load can be told from code: what one function takes beside the others.
// PARSE is how often parseOrders works on an order: 25 for a quarter more than 20. Its functions are loops over small integers and typed arrays: with
// charCodeAt or destructuring V8 12.4 makes code that is a third faster in some processes than in others, and then there is no right answer.
'use strict';

const parse = Number(process.env.PARSE ?? 20);
const orders = Array.from({ length: 40 }, (_, id) => ({ id, name: `item ${id}`, price: id * 1.5 }));
const text = new Uint8Array(Buffer.from(JSON.stringify(orders)));
const shelf = new Int32Array(4096).map((_, i) => (i * 7919) % 4096);
let kept = 0;

function parseOrders(times) {
    let sum = 0;
    for (let i = 0; i < times; i++) {
        let number = 0;
        for (let at = 0; at < text.length; at++) {
            const code = text[at];
            number = (number * 10 + code) | 0;
            sum = (sum ^ number) | 0;
        }
    }
    return sum;
}
function priceItems(rounds) {
    let sum = 0;
    for (let i = 0; i < rounds; i++) sum += Math.sqrt(i) * 1.19;
    return sum;
}
function checkStock(rounds) {
    let hash = 7;
    for (let i = 0; i < rounds; i++) hash = Math.imul(hash ^ i, 31);
    return hash;
}
function sumShelf(rounds) {
    let sum = 0;
    for (let i = 0; i < rounds; i++) sum = (sum + shelf[(i * 17) & 4095]) | 0;
    return sum;
}
function packBoxes(rounds) {
    let room = 100;
    let boxes = 0;
    for (let i = 0; i < rounds; i++) {
        room -= 1 + (i % 13);
        if (room < 0) {
            boxes++;
            room = 100;
        }
    }
    return boxes;
}
function rateBuyers(rounds) {
    let rating = 0.5;
    for (let i = 1; i < rounds; i++) rating = 3.7 * rating * (1 - rating);
    return rating;
}
function planRoute(rounds) {
    let x = 0;
    let length = 0;
    for (let i = 0; i < rounds; i++) {
        const next = Math.imul(i, 13) & 127;
        length = (length + Math.abs(next - x)) | 0;
        x = next;
    }
    return length;
}
function mixColours(rounds) {
    let colour = 0x123456;
    for (let i = 0; i < rounds; i++) colour = ((colour << 5) ^ (colour >>> 3) ^ i) >>> 0;
    return colour;
}
function handleOrder() {
    kept += parseOrders(parse * 10) + priceItems(110_000) + checkStock(330_000) + sumShelf(570_000);
    kept += packBoxes(310_000) + rateBuyers(235_000) + planRoute(440_000) + mixColours(520_000);
}

module.exports = { handleOrder };

// By the clock, not by what is left: a tick that comes late is made up for, so that each second has its orders.
function handleOrdersByTheClock() {
    const started = performance.now();
    let handled = 0;
    setInterval(() => {
        const due = Math.floor((performance.now() - started) / 50);
        for (; handled < due; handled++) handleOrder();
    }, 10);
    setTimeout(() => process.exit(), Number(process.env.MS ?? 600_000));
    console.log('ready');
}
if (require.main === module) handleOrdersByTheClock();
