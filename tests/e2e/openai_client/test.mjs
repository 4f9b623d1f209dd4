// Drives a running server with the official OpenAI client, as an application would.
// BASE_URL: its address with /v1 (http://127.0.0.1:8080/v1). API_KEY: a valid key; leave it out when the server has none.
// The model may be one of random weights: nothing here depends on what it says, only on the form that the server guarantees.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import OpenAI, { AuthenticationError, BadRequestError, NotFoundError } from 'openai';

const baseURL = process.env.BASE_URL ?? 'http://127.0.0.1:8080/v1';
const apiKey = process.env.API_KEY ?? 'none';
const client = new OpenAI({ baseURL, apiKey, maxRetries: 0, timeout: 60_000 });
const model = (await client.models.list()).data[0].id;
const hello = [{ role: 'user', content: 'Say hello.' }];
const weather = {
  type: 'function',
  function: {
    name: 'get_weather',
    description: 'Weather of a city',
    parameters: {
      type: 'object',
      properties: { city: { type: 'string', enum: ['Ulm', 'Bonn'] } },
      required: ['city'],
      additionalProperties: false,
    },
  },
};
const clock = {
  type: 'function',
  function: { name: 'get_time', parameters: { type: 'object', properties: {} } },
};
// Thinking is switched off where a call is forced: a model of random weights would never stop thinking.
const forced = { type: 'function', function: { name: 'get_weather' } };

function checkUsage(usage) {
  assert.equal(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens);
  assert.ok(usage.prompt_tokens_details.cached_tokens >= 0);
  assert.ok(usage.prompt_tokens_details.cached_tokens <= usage.prompt_tokens);
}

test('a chat answer', async () => {
  const answer = await client.chat.completions.create({ model, messages: hello, max_tokens: 8, temperature: 0 });
  assert.equal(answer.object, 'chat.completion');
  assert.equal(answer.model, model);
  assert.match(answer.id, /^chatcmpl-/);
  assert.equal(typeof answer.choices[0].message.content, 'string');
  assert.ok(['stop', 'length'].includes(answer.choices[0].finish_reason));
  checkUsage(answer.usage);
});

test('a repeated chat answers the same and reports its prompt as cached', async () => {
  const long = [{ role: 'system', content: 'Answer briefly and politely. '.repeat(8) }, ...hello];
  const request = { model, messages: long, max_tokens: 8, temperature: 0 };
  const first = await client.chat.completions.create(request);
  const second = await client.chat.completions.create(request);
  assert.equal(second.choices[0].message.content, first.choices[0].message.content);
  checkUsage(second.usage);
});

test('a stream gives the same text as the whole answer', async () => {
  const request = { model, messages: hello, max_tokens: 12, temperature: 0 };
  const whole = await client.chat.completions.create(request);
  const stream = await client.chat.completions.create({ ...request, stream: true, stream_options: { include_usage: true } });
  let text = '';
  let finish = null;
  let usage = null;
  for await (const chunk of stream) {
    assert.equal(chunk.object, 'chat.completion.chunk');
    text += chunk.choices[0]?.delta.content ?? '';
    finish = chunk.choices[0]?.finish_reason ?? finish;
    usage = chunk.usage ?? usage;
  }
  assert.equal(text, whole.choices[0].message.content ?? '');
  assert.equal(finish, whole.choices[0].finish_reason);
  checkUsage(usage);
});

test('the stream helper assembles a whole completion', async () => {
  const runner = client.chat.completions.stream({ model, messages: hello, max_tokens: 6, temperature: 0 });
  const final = await runner.finalChatCompletion();
  assert.equal(final.choices[0].message.role, 'assistant');
});

test('a forced tool call is valid and names the tool', async () => {
  const answer = await client.chat.completions.create({
    model, messages: hello, tools: [weather, clock], tool_choice: forced, max_tokens: 200, temperature: 0, reasoning_effort: 'none',
    parallel_tool_calls: false, // random weights would make call after call
  });
  assert.equal(answer.choices[0].message.tool_calls.length, 1);
  const call = answer.choices[0].message.tool_calls[0];
  assert.equal(answer.choices[0].finish_reason, 'tool_calls');
  assert.equal(call.type, 'function');
  assert.equal(call.function.name, 'get_weather');
  assert.ok(call.id.length > 0);
  assert.ok(['Ulm', 'Bonn'].includes(JSON.parse(call.function.arguments).city));
});

test('a streamed tool call adds up to valid arguments', async () => {
  const runner = client.chat.completions.stream({
    model, messages: hello, tools: [weather], tool_choice: forced, max_tokens: 200, temperature: 0, reasoning_effort: 'none',
  });
  const final = await runner.finalChatCompletion();
  const call = final.choices[0].message.tool_calls[0];
  assert.equal(call.function.name, 'get_weather');
  assert.ok(['Ulm', 'Bonn'].includes(JSON.parse(call.function.arguments).city));
});

test('a conversation with a tool call and its result goes on', async () => {
  const messages = [
    ...hello,
    { role: 'assistant', content: null, tool_calls: [{ id: 'call_000', type: 'function', function: { name: 'get_weather', arguments: '{"city":"Ulm"}' } }] },
    { role: 'tool', tool_call_id: 'call_000', content: 'sunny' },
  ];
  const answer = await client.chat.completions.create({ model, messages, tools: [weather], max_tokens: 4 });
  assert.equal(answer.choices[0].message.role, 'assistant');
});

test('a JSON schema is kept', async () => {
  const schema = {
    type: 'object',
    properties: { color: { type: 'string', enum: ['red', 'green'] }, big: { type: 'boolean' } },
    required: ['color', 'big'],
    additionalProperties: false,
  };
  const answer = await client.chat.completions.create({
    model, messages: hello, max_tokens: 200, temperature: 0,
    response_format: { type: 'json_schema', json_schema: { name: 'thing', schema, strict: true } },
  });
  const value = JSON.parse(answer.choices[0].message.content);
  assert.deepEqual(Object.keys(value).sort(), ['big', 'color']);
  assert.ok(schema.properties.color.enum.includes(value.color));
  assert.equal(typeof value.big, 'boolean');
});

test('a JSON object begins as one', async () => {
  const answer = await client.chat.completions.create({
    model, messages: hello, max_tokens: 64, temperature: 0, response_format: { type: 'json_object' },
  });
  const text = answer.choices[0].message.content.trimStart();
  if (answer.choices[0].finish_reason === 'stop') assert.equal(typeof JSON.parse(text), 'object');
  else assert.equal(text[0], '{'); // random weights may fill the length with one long string
});

test('two choices have two indices', async () => {
  const answer = await client.chat.completions.create({ model, messages: hello, n: 2, max_tokens: 4, seed: 7 });
  assert.deepEqual(answer.choices.map((c) => c.index), [0, 1]);
});

test('equal seeds give equal answers', async () => {
  const request = { model, messages: hello, max_tokens: 8, temperature: 1, seed: 1234 };
  const a = await client.chat.completions.create(request);
  const b = await client.chat.completions.create(request);
  assert.equal(a.choices[0].message.content, b.choices[0].message.content);
});

test('logprobs come with bytes and sorted alternatives', async () => {
  const answer = await client.chat.completions.create({
    model, messages: hello, max_tokens: 4, temperature: 0, logprobs: true, top_logprobs: 3,
  });
  const entries = answer.choices[0].logprobs.content;
  assert.ok(entries.length > 0);
  for (const entry of entries) {
    assert.ok(entry.logprob <= 0);
    assert.ok(Array.isArray(entry.bytes));
    assert.equal(entry.top_logprobs.length, 3);
    const order = entry.top_logprobs.map((t) => t.logprob);
    assert.deepEqual(order, [...order].sort((x, y) => y - x));
    assert.equal(entry.top_logprobs[0].logprob, entry.logprob); // greedy
  }
});

test('a stop string ends the answer and is not in it', async () => {
  const free = await client.completions.create({ model, prompt: 'Once upon a time', max_tokens: 24, temperature: 0 });
  const text = free.choices[0].text;
  const stop = text.slice(2, 4);
  if (stop.length < 2 || stop.includes('\ufffd')) return; // this model gives nothing to stop at
  const cut = await client.completions.create({ model, prompt: 'Once upon a time', max_tokens: 24, temperature: 0, stop });
  assert.equal(cut.choices[0].finish_reason, 'stop');
  assert.equal(cut.choices[0].text, text.slice(0, text.indexOf(stop)));
});

test('text completions: list of prompts, echo, logprobs, stream', async () => {
  const two = await client.completions.create({ model, prompt: ['One', 'Two'], max_tokens: 2, echo: true });
  assert.ok(two.choices[0].text.startsWith('One'));
  assert.ok(two.choices[1].text.startsWith('Two'));
  const scored = await client.completions.create({ model, prompt: 'One', max_tokens: 2, logprobs: 2, temperature: 0 });
  assert.equal(scored.choices[0].logprobs.tokens.length, scored.choices[0].logprobs.token_logprobs.length);
  let chunks = 0;
  for await (const chunk of await client.completions.create({ model, prompt: 'One', max_tokens: 3, stream: true })) {
    assert.equal(chunk.object, 'text_completion');
    chunks++;
  }
  assert.ok(chunks > 0);
});

test('bad requests become BadRequestError with the field', async () => {
  const cases = [
    [{ messages: [] }, 'messages'],
    [{ messages: [{ role: 'wizard', content: 'x' }] }, 'messages[0].role'],
    [{ messages: hello, temperature: -1 }, 'temperature'],
    [{ messages: hello, n: 99 }, 'n'],
    [{ messages: hello, response_format: { type: 'xml' } }, 'response_format.type'],
    [{ messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'data:,' } }] }] }, 'messages[0].content'],
  ];
  for (const [body, param] of cases) {
    await assert.rejects(client.chat.completions.create({ model, ...body }), (e) => {
      assert.ok(e instanceof BadRequestError);
      assert.equal(e.param, param);
      assert.equal(e.type, 'invalid_request_error');
      return true;
    });
  }
});

test('a prompt over the context says so', async () => {
  const messages = [{ role: 'user', content: 'word '.repeat(200_000) }];
  await assert.rejects(client.chat.completions.create({ model, messages }), (e) => {
    assert.ok(e instanceof BadRequestError);
    assert.equal(e.code, 'context_length_exceeded');
    return true;
  });
});

test('an unknown path becomes NotFoundError', async () => {
  await assert.rejects(client.post('/no/such/path', { body: {} }), NotFoundError);
});

test('a wrong key becomes AuthenticationError', { skip: process.env.API_KEY ? false : 'the server has no keys' }, async () => {
  const stranger = new OpenAI({ baseURL, apiKey: 'wrong', maxRetries: 0 });
  await assert.rejects(stranger.chat.completions.create({ model, messages: hello }), AuthenticationError);
});

test('an aborted stream leaves a healthy server', async () => {
  const stream = await client.chat.completions.create({
    model, messages: hello, max_tokens: 400, stream: true, logit_bias: {}, temperature: 0,
  });
  for await (const chunk of stream) {
    if (chunk.choices[0]?.delta.content) stream.controller.abort();
  }
  const answer = await client.chat.completions.create({ model, messages: hello, max_tokens: 2 });
  assert.equal(answer.choices.length, 1);
});
