// A service with a steady load: ten orders a second, each a fixed amount of work in five functions, so that CPU time
// changes only when the code does. PARSE is how often parseOrders works on an order: 30 for half as much again as 20.
'use strict';

const parse = Number(process.env.PARSE ?? 20);
const text = JSON.stringify(Array.from({ length: 40 }, (_, id) => ({ id, name: `item ${id}`, price: id * 1.5 })));
let kept = 0;

function parseOrders(times) {
    let sum = 0;
    for (let i = 0; i < times; i++) {
        let number = 0;
        for (let at = 0; at < text.length; at++) {
            const code = text.charCodeAt(at);
            if (code >= 48 && code <= 57) number = number * 10 + code - 48;
            else {
                sum += number;
                number = 0;
            }
        }
    }
    return sum;
}
function priceItems(rounds) {
    let sum = 0;
    for (let i = 0; i < rounds; i++) sum += Math.sqrt(i) * 1.19;
    return sum;
}
function sortShelf(length) {
    const shelf = Array.from({ length }, (_, i) => (i * 7919) % length);
    return shelf.sort((a, b) => a - b)[0];
}
function renderPage(rows) {
    let page = '';
    for (let i = 0; i < rows; i++) page += `<li>${i}: ${(i * 31) % 97}</li>`;
    return page.length;
}
function checkStock(rounds) {
    let hash = 7;
    for (let i = 0; i < rounds; i++) hash = (hash * 31 + i) | 0;
    return hash;
}
function handleOrder() {
    kept += parseOrders(parse * 25) + priceItems(200_000) + sortShelf(3_000) + renderPage(8_000) + checkStock(150_000);
}

// By the clock, not by what is left: a tick that comes late is made up for, so that each second has its ten.
const started = performance.now();
let handled = 0;
setInterval(() => {
    const due = Math.floor((performance.now() - started) / 100);
    for (; handled < due; handled++) handleOrder();
}, 10);
setTimeout(() => process.exit(), Number(process.env.MS ?? 600_000));
console.log('ready');
