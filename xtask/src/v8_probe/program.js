// What `cargo run -p xtask -- v8-probe` lets Node run: one function per kind of code, kept alive and
// printed in the order printed.rs expects. Nothing may be collected or moved while it is looked at,
// so it allocates little.
function inlined(x) { return x * 3 + 1; }
function optimizedOne(n) { let s = 0; for (let i = 0; i < n; i++) s += inlined(i); return s; }
function optimizedTwo(n) { let s = ''; for (let i = 0; i < n; i++) s += inlined(i) + ','; return s.length; }
function baselined(n) { let s = 0; for (let i = 0; i < n; i++) s += i; return s; }
function interpreted(n) { let s = 1; for (let i = 0; i < n; i++) s += i; return s; }
function maglevved(n) { let s = 1; for (let i = 0; i < n; i++) s += i; return s; }

for (const f of [optimizedOne, optimizedTwo]) {
  %PrepareFunctionForOptimization(inlined);
  %PrepareFunctionForOptimization(f);
  f(9);
  f(9);
  %OptimizeFunctionOnNextCall(f);
  f(9);
}
%CompileBaseline(baselined);
baselined(3);
interpreted(3);
try {
  // Not known before V8 11.
  eval('%PrepareFunctionForOptimization(maglevved); maglevved(3); maglevved(3); %OptimizeMaglevOnNextCall(maglevved)');
  maglevved(3);
} catch {}
const regexp = /(a+)(b*)x/;
regexp.exec('caaabbbx');
regexp.exec('caaabbbx');
// Each of these has an instance type of its own among the functions.
const constructors = [
  class {}, Array, Promise, RegExp, function () {}, Int8Array, Uint8Array, Uint8ClampedArray, Int16Array, Uint16Array,
  Int32Array, Uint32Array, Float32Array, Float64Array, BigInt64Array, BigUint64Array,
  typeof Float16Array === 'undefined' ? Array : Float16Array,
];
%DebugPrint(optimizedOne);
%DebugPrint(optimizedTwo);
%DebugPrint(baselined);
%DebugPrint(interpreted);
%DebugPrint(maglevved);
%DebugPrint(regexp);
%DebugPrint(constructors);
globalThis.kept = [optimizedOne, optimizedTwo, baselined, interpreted, maglevved, regexp, constructors];
process.stdout.write('\nready\n');
setInterval(() => {}, 1e6);
