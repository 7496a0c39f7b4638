// What other programs make of the outputs. SPDX-License-Identifier: MIT
//     node viewers.mjs speedscope TRACE.json ROWS.csv     speedscope's own importer finds the calls and totals of ROWS
//     node viewers.mjs duckdb README.md SUMMARY.json      the query of README.md over spans-*.csv gives the rows of SUMMARY
// Run in a folder where `npm install speedscope @duckdb/node-api` was done; duckdb where the files of --spans are.
import fs from 'fs';
import path from 'path';
import vm from 'vm';
import { createRequire } from 'module';

const require = createRequire(path.join(process.cwd(), 'index.js'));
const [, , what, first, second] = process.argv;
let wrong = 0;
function same(name, expected, got) {
    if (String(expected) === String(got)) return;
    wrong++;
    console.log(`${name}: expected ${expected}, got ${got}`);
}

// The bundle as it is, in a context with just enough of a browser; it is stopped where it would begin to draw.
async function speedscopeImport(file) {
    const folder = path.join(process.cwd(), 'node_modules/speedscope/dist/release');
    let source = fs.readFileSync(path.join(folder, fs.readdirSync(folder).find(f => /^speedscope-.*\.js$/.test(f))), 'utf8');
    const lazy = /var (\w+)=Promise\.resolve\(\)\.then\(\(\)=>\((\w+)\(\),(\w+)\)\);\1\.then/g;
    let at, hook = null;
    while (!hook && (at = lazy.exec(source)))
        if (new RegExp('\\b\\w+\\(' + at[3].replace('$', '\\$') + ',\\{[^}]*importProfilesFromArrayBuffer').test(source)) hook = at;
    if (!hook) throw new Error("speedscope's importer was not found in its bundle");
    source = source.slice(0, hook.index) + `globalThis.__importer=(${hook[2]}(),${hook[3]});throw new Error("__stop");` + source.slice(hook.index);
    const anything = () => new Proxy(function () {}, { get: (_, k) => (k === Symbol.toPrimitive ? () => '' : anything()), apply: anything, construct: anything, set: () => true });
    const quiet = { log() {}, warn() {}, error() {}, info() {}, debug() {} };
    const world = { console: quiet, TextDecoder, TextEncoder, performance, setTimeout, clearTimeout, requestAnimationFrame: () => 0, Uint8Array, ArrayBuffer, atob, btoa, URL,
        WebAssembly, document: anything(), navigator: { userAgent: 'node', platform: 'Linux' }, location: { protocol: 'file:', hash: '', href: 'file:///' },
        localStorage: { getItem: () => null, setItem() {} }, matchMedia: () => ({ matches: false, addListener() {}, addEventListener() {} }) };
    world.window = world.self = world.globalThis = world;
    vm.createContext(world);
    try {
        vm.runInContext(source, world);
    } catch (e) {
        if (e.message !== '__stop') throw e;
    }
    const bytes = fs.readFileSync(file);
    return world.__importer.importProfilesFromArrayBuffer(path.basename(file), bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength));
}

async function speedscope(trace, csv) {
    const group = await speedscopeImport(trace);
    if (!group) throw new Error('speedscope does not know the file');
    const calls = {};
    for (const profile of group.profiles) profile.forEachCall(n => { calls[n.frame.name] = (calls[n.frame.name] || 0) + 1; }, () => {});
    const rows = {};
    const lines = fs.readFileSync(csv, 'utf8').trim().split('\n').map(l => l.split(','));
    for (const line of lines.slice(1)) rows[line[0]] = (rows[line[0]] || 0) + Number(line[lines[0].indexOf('calls')]);
    for (const name in rows) same('calls of ' + name, rows[name], calls[name]);
}

async function duckdb(readme, summary) {
    const { DuckDBInstance } = require('@duckdb/node-api');
    const query = /```sql\n([^`]*spans-\*\.csv[^`]*)```/.exec(fs.readFileSync(readme, 'utf8'))[1];
    const connection = await (await DuckDBInstance.create(':memory:')).connect();
    const got = (await connection.runAndReadAll(query)).getRowObjects();
    const key = r => ['name', 'phase', 'activity', 'backend', 'dtype', 'device', 'module'].map(k => r[k] ?? '').join('\u0001');
    const rows = new Map(JSON.parse(fs.readFileSync(summary, 'utf8')).rows.map(r => [key(r.key), r]));
    same('number of rows', rows.size, got.length);
    for (const g of got) {
        const r = rows.get(key(g));
        if (!r) same('row', key(g), 'none');
        else for (const c of ['calls', 'self_ns', 'total_ns', 'min_ns', 'mean_ns', 'max_ns']) same(c + ' of ' + g.name, r[c], g[c]);
    }
}

await (what === 'speedscope' ? speedscope : duckdb)(first, second);
process.exit(wrong ? 1 : 0);
