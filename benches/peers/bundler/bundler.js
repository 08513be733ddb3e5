// Deep, varied stacks for the benchmarks: babel, terser and the TypeScript compiler work on slices of
// typescript.js until the time is over.
//
//   node bundler.js SECONDS
const fs = require('node:fs');
const babel = require('@babel/core');
const terser = require('terser');
const typescript = require('typescript');

const source = fs.readFileSync(require.resolve('typescript/lib/typescript.js'), 'utf8');
const end = Date.now() + 1000 * Number(process.argv[2] || 60);

// Whole top-level functions of the bundle, some 20 kB of them at a time.
const functions = source.split(/\n(?=  ?function [A-Za-z])/).filter((text) => text.length < 20_000);
function slice(from) {
  let text = '';
  for (let at = from; text.length < 20_000; at++) text += functions[at % functions.length] + '\n';
  return text;
}

function isScript(text) {
  try {
    new (require('node:vm').Script)(text);
    return true;
  } catch {
    return false;
  }
}

async function main() {
  const out = { babel: 0, terser: 0, typescript: 0 };
  for (let round = 0; Date.now() < end; round++) {
    const text = slice(round * 37);
    if (!isScript(text)) continue;
    const ast = babel.transformSync(text, { configFile: false, compact: true, comments: false });
    out.babel += ast.code.length;
    out.terser += (await terser.minify(text, { compress: true, mangle: true })).code.length;
    out.typescript += typescript.transpileModule(text, {
      compilerOptions: { target: typescript.ScriptTarget.ES5, downlevelIteration: true },
    }).outputText.length;
  }
  console.log(JSON.stringify(out));
}

main();
