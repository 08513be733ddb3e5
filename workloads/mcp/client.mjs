// What a coding assistant does with `nodespy mcp`, by the protocol's own client: prints everything it was answered as one JSON object.
//
//   node client.mjs NODESPY PID FUNCTION [OPTION OF NODESPY MCP …]
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';

const [command, pid, hot, ...options] = process.argv.slice(2);
const client = new Client({ name: 'nodespy-tests', version: '0.0.0' });
await client.connect(new StdioClientTransport({ command, args: ['mcp', ...options] }));

const call = async (name, parameters, more) => {
  const answer = await client.callTool({ name, arguments: parameters }, undefined, { timeout: 90_000, ...more });
  return { isError: answer.isError, text: answer.content.map((part) => part.text).join('') };
};
const record = (seconds, more) => call('record', { pid: Number(pid), seconds, rate_hz: 499 }, more);

const progress = [];
let hasRecorded = false;
let pongsWhileRecording = 0;
const onprogress = async (now) => {
  progress.push(now);
  await client.ping();
  pongsWhileRecording += Number(!hasRecorded);
};

const answers = {};
const tools = (await client.listTools()).tools.map((tool) => tool.name);
answers.list = await call('list_processes', {});
answers.record = await record(3, { onprogress });
hasRecorded = true;
answers.again = await record(2);

// A recording that is cancelled ends: what follows is answered long before it would be over.
const abandon = new AbortController();
const cancelled = await record(60, { signal: abandon.signal, onprogress: () => abandon.abort('enough') })
  .then(() => false, () => true);

answers.report = await call('report', { recording: 'r1' });
answers.lines = await call('hot_lines', { recording: 'r1', function: hot });
answers.query = await call('query', { recording: 'r1', query: 'top 50 total by file' });
answers.compare = await call('compare', { before: 'r1', after: 'r2' });
const failures = {
  gone: await call('record', { pid: 4_194_305, seconds: 1 }),
  other: await call('record', { pid: process.ppid, seconds: 1 }),
  unreadable: await call('report', { recording: process.argv[1] }),
  nonsense: await call('query', { recording: 'r1', query: 'nonsense' }),
};
await client.close();
console.log(JSON.stringify({ tools, progress, pongsWhileRecording, cancelled, answers, failures }));
