// Right answer: see names.js, whose part in ECMAScript modules this is. Alone it does nothing.

function moduleFunction(n) { let h = n | 0; for (let i = 0; i < 60000; i++) h = Math.imul(h ^ (h >>> 15), 0x2c1b3ca1) + i | 0; return h; }

const moduleArrow = (n) => { let h = n | 0; for (let i = 0; i < 60000; i++) h = Math.imul(h ^ (h >>> 15), 0x2c1b3ca3) + i | 0; return h; };

export default function (n) { let h = n | 0; for (let i = 0; i < 60000; i++) h = Math.imul(h ^ (h >>> 15), 0x2c1b3ca5) + i | 0; return h; }
import whatIsExported from './names.mjs';

export const turns = [moduleFunction, moduleArrow, whatIsExported];
