// What was pushed, read by others' code: a request of `WriteRaw` by Parca's own messages, pprof by a foreign reader.
//
//   node read.js parca FILE     a line for each series of a request, as it was posted
//   node read.js pprof FILE     a line for a gzipped pprof
//
// Fails where Parca's server would refuse it (pkg/normalizer of parca-dev/parca: names of labels, ids in their order, a key for each label).
'use strict';

const assert = require('assert');
const fs = require('fs');
const path = require('path');
const zlib = require('zlib');
const { buildSync } = require('esbuild');
const { Profile } = require('pprof-format');

const LABEL_NAME = /^[a-zA-Z_][a-zA-Z0-9_]*$/;

/** Parca's messages. Their modules import one another without extensions, which only a bundler understands. */
function parcaMessages() {
    const entry = path.join(path.dirname(require.resolve('@parca/client')), 'parca/profilestore/v1alpha1/profilestore.js');
    const built = buildSync({ entryPoints: [entry], bundle: true, format: 'cjs', platform: 'node', write: false });
    const bundle = { exports: {} };
    new Function('module', 'exports', 'require', built.outputFiles[0].text)(bundle, bundle.exports, require);
    return bundle.exports;
}

function series(request) {
    assert.strictEqual(request[0], 0, 'a message, not packed');
    assert.strictEqual(request.readUInt32BE(1), request.length - 5);
    const { WriteRawRequest } = parcaMessages();
    const { series } = WriteRawRequest.fromBinary(request.subarray(5));
    return series.map(({ labels, samples }) => {
        const pairs = labels.labels.map(({ name, value }) => [name, value]);
        const names = pairs.map(([name]) => name);
        for (const name of names) assert.match(name, LABEL_NAME);
        assert.strictEqual(new Set(names).size, names.length, `twice in ${names}`);
        assert(names.includes('__name__'), 'the name of the profile');
        assert.strictEqual(samples.length, 1);
        return { labels: Object.fromEntries(pairs), ...pprof(Buffer.from(samples[0].rawProfile)) };
    });
}

function pprof(bytes) {
    assert(bytes[0] === 0x1f && bytes[1] === 0x8b, 'gzipped');
    const profile = Profile.decode(zlib.gunzipSync(bytes));
    const strings = profile.stringTable.strings;
    const text = (index) => strings[Number(index)];
    assert.strictEqual(strings[0], '');
    for (const table of [profile.mapping, profile.function, profile.location]) {
        table.forEach(({ id }, position) => assert.strictEqual(Number(id), position + 1));
    }
    const types = profile.sampleType.map(({ type, unit }) => `${text(type)}/${text(unit)}`);
    const weights = {};
    let total = 0;
    for (const sample of profile.sample) {
        assert.strictEqual(sample.value.length, types.length);
        for (const label of sample.label) assert(text(label.key));
        const weight = Number(sample.value.at(-1));
        const stack = sample.locationId.flatMap((id) => profile.location[Number(id) - 1].line);
        for (const name of new Set(stack.map(({ functionId }) => text(profile.function[Number(functionId) - 1].name)))) {
            weights[name] = (weights[name] ?? 0) + weight;
        }
        total += weight;
    }
    const seconds = (nanoseconds) => Number(nanoseconds) / 1e9;
    return { types, start: seconds(profile.timeNanos), duration: seconds(profile.durationNanos), total, weights };
}

const [kind, file] = process.argv.slice(2);
const bytes = fs.readFileSync(file);
for (const found of kind === 'parca' ? series(bytes) : [pprof(bytes)]) console.log(JSON.stringify(found));
