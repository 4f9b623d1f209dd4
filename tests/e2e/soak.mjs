// usage: BASE_URL=http://127.0.0.1:8080 SERVER_PID=1234 [API_KEY=...] [REQUESTS=5000] [CLIENTS=8] [SEED=1] node soak.mjs
// Mixed requests against a running server (repeats, branches, streams, aborts, bad requests); prints the server's resident
// memory every 500. Ends with an error when a request is answered in a way that it must not be.
import { readFileSync } from 'node:fs';

const base = process.env.BASE_URL ?? 'http://127.0.0.1:8080';
const total = Number(process.env.REQUESTS ?? 5000);
const clients = Number(process.env.CLIENTS ?? 8);
const headers = { 'Content-Type': 'application/json' };
if (process.env.API_KEY) headers.Authorization = `Bearer ${process.env.API_KEY}`;

let state = Number(process.env.SEED ?? 1) >>> 0;
function random(n) {
  state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
  return (state >>> 8) % n;
}

function words(seed, n) {
  let x = seed >>> 0;
  return Array.from({ length: n }, () => {
    x = (Math.imul(x, 22695477) + 1) >>> 0;
    return 'w' + ((x >>> 16) % 500);
  }).join(' ');
}

const systems = Array.from({ length: 6 }, (_, i) => words(100 + i, 40));
const counts = { chat: 0, stream: 0, abort: 0, completion: 0, bad: 0, busy: 0 };

function chatBody() {
  const messages = [{ role: 'system', content: systems[random(systems.length)] }];
  for (let turn = random(3); turn > 0; turn--) {
    messages.push({ role: 'user', content: words(random(20), 8) }, { role: 'assistant', content: words(random(20), 6) });
  }
  messages.push({ role: 'user', content: words(random(200), 1 + random(30)) });
  return { messages, max_tokens: 1 + random(12), temperature: random(2), seed: random(100) };
}

async function post(path, body, options = {}) {
  return fetch(base + path, { method: 'POST', headers, body: JSON.stringify(body), ...options });
}

function expectStatus(response, wanted) {
  if (response.status === 429 || response.status === 503) counts.busy++;
  else if (response.status !== wanted) throw new Error(`status ${response.status} instead of ${wanted}`);
}

async function abortedStream() {
  const controller = new AbortController();
  try {
    const response = await post('/v1/chat/completions', { ...chatBody(), max_tokens: 200, stream: true }, { signal: controller.signal });
    let left = 1 + random(4);
    for await (const _ of response.body) if (--left === 0) controller.abort();
  } catch (e) {
    if (e.name !== 'AbortError') throw e;
  }
}

async function one() {
  const kind = random(20);
  if (kind < 9) {
    counts.chat++;
    const response = await post('/v1/chat/completions', chatBody());
    expectStatus(response, 200);
    await response.text();
  } else if (kind < 13) {
    counts.stream++;
    const response = await post('/v1/chat/completions', { ...chatBody(), stream: true });
    expectStatus(response, 200);
    const text = await response.text();
    if (response.status === 200 && !text.endsWith('data: [DONE]\n\n')) throw new Error('a stream without its end');
  } else if (kind < 15) {
    counts.abort++;
    await abortedStream();
  } else if (kind < 19) {
    counts.completion++;
    const response = await post('/completion', { prompt: words(random(30), 20 + random(60)), n_predict: random(8), n_probs: random(3) });
    expectStatus(response, 200);
    await response.text();
  } else {
    counts.bad++;
    const response = await post('/v1/chat/completions', random(2) ? { messages: [] } : { messages: 'x', max_tokens: -5 });
    expectStatus(response, 400);
    await response.text();
  }
}

function residentKib() {
  if (!process.env.SERVER_PID) return NaN;
  return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${process.env.SERVER_PID}/status`, 'utf8'))[1]);
}

let begun = 0;
let done = 0;
const start = Date.now();
async function client() {
  while (begun++ < total) {
    await one();
    if (++done % 500 === 0) console.log(`${done} requests, ${((Date.now() - start) / 1000).toFixed(0)} s, RSS ${residentKib()} KiB`);
  }
}
await Promise.all(Array.from({ length: clients }, client));
console.log(JSON.stringify(counts));
