/**
 * Messages of strangers, one fault each: units, outputs, and notices of a queue, and requests to serve. Each
 * costs one refusal of one line.
 * The command line meets files of the same kinds (test/fuzz/corpus/messages.ts), whose memory is measured.
 */
import { deflateRawSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { presets } from '../../src/audit/settings.js';
import { parseAuditUnit } from '../../src/audit/units/queue-audits.js';
import {
  packJob,
  readJob,
  readNotice,
  unpackInput,
  unpackOutput,
} from '../../src/runs/queue/queue-messages.js';
import { defaultLimits, readJsonBody } from '../../src/serve/access.js';
import { createScriptedApp } from '../support/serve/scripted-app.js';
import { nest } from '../fuzz/corpus/case.js';

/** What was refused, if in one line of text. */
function refusalOf(read: () => unknown): string {
  try {
    read();
  } catch (cause) {
    const { message } = cause as Error;
    expect(message).toMatch(/^[^\n]{1,600}$/);
    expect(message).not.toMatch(/"code"|\bundefined \(reading|is not a function|stack size/);
    return message;
  }
  throw new Error('It was accepted.');
}

const deflate = (text: string | Buffer): string => deflateRawSync(text).toString('base64');
const list = (item: string, count: number): string => `[${`${item},`.repeat(count)}${item}]`;
const job = (fields: object): unknown => ({ ...packJob('a', '1', { a: 1 }), ...fields });
const parsed = (text: string): unknown => JSON.parse(text);

describe('a job of a queue', () => {
  it.each<readonly [string, unknown, RegExp]>([
    ['nothing', undefined, /expected object/],
    ['a list of 100,000 lists', parsed(nest(100_000)), /expected object/],
    ['a prototype', parsed(`{"__proto__":${JSON.stringify(packJob('a', '1', {}))}}`), /schema: .*expected/],
    ['a method of objects for a schema', job({ schema: { toString: 1 } }), /^schema: /],
    ['a version of a million letters', job({ version: 'v'.repeat(1e6) }), /^version: .*200 characters/],
    ['a key of a million letters', job({ key: 'k'.repeat(1e6) }), /^key: .*2000 characters/],
    [
      '100,000 unknown names',
      {
        ...Object.fromEntries(Array.from({ length: 1e5 }, (_, at) => [`x${at}`, at])),
        ...packJob('a', '1', {}),
      },
      /^Unrecognized key: "x0"$/,
    ],
    ['1e999 for its input', job({ input: Infinity }), /^input: .*expected string/],
  ])('with %s is refused', (_, value, fault) => {
    expect(refusalOf(() => readJob(value))).toMatch(fault);
  });

  it.each<readonly [string, string, RegExp]>([
    ['a million nested lists', nest(1_000_000), /nests more than 500/],
    ['a million nested objects, packed', deflate('{"a":'.repeat(1_000_000)), /nests more than 500/],
    ['eight million numbers', deflate(list('1', 8_000_000)), /has more than 1000000 values/],
    ['five million empty objects', deflate(list('{}', 5_000_000)), /has more than 1000000 values/],
    ['half of a packed text', deflate('[1,2,3,4]').slice(0, 8), /cannot be unpacked/],
    ['text that is not UTF-8', deflate(Buffer.from([0x5b, 0xff, 0x5d])), /not valid/],
    ['no JSON', '{', /JSON/],
  ])('whose input is %s is refused', (_, input, fault) => {
    expect(refusalOf(() => unpackInput(readJob(job({ input }))))).toMatch(fault);
  });
});

const sha256 = 'ab'.repeat(32);
const identity = { name: 'tiny', parameterCount: 1000, sha256 };
const unit = {
  command: 'audit',
  request: {
    ...{ version: '0.3.0', settings: presets.quick, seed: 1, device: { kind: 'cpu', dtype: 'float32' } },
    target: identity,
    drafter: { ...identity, id: 'd', system: 'EAGLE-3', policy: 'chain:3' },
    prompts: [{ id: 'p', text: 'Hello', turns: ['Hello'] }],
    suffixes: [],
  },
  work: { kind: 'arms', arms: [{ arm: 'clean', repeat: 1 }] },
};
const withRequest = (fields: object): unknown => ({ ...unit, request: { ...unit.request, ...fields } });
const withSettings = (fields: object): unknown => withRequest({ settings: { ...presets.quick, ...fields } });

describe('a unit', () => {
  it('is read', () => {
    expect(parseAuditUnit(unit)).toEqual(unit);
  });

  it.each<readonly [string, unknown, RegExp]>([
    [
      'a million prompts that are none',
      withRequest({ prompts: new Array(1e6).fill({}) }),
      /"request\.prompts\.0\.id"/,
    ],
    [
      'a million suffixes that are none',
      withRequest({ suffixes: new Array(1e6).fill(0) }),
      /"request\.suffixes\.0"/,
    ],
    ['1e15 steps', withSettings({ steps: 1e15 }), /"request\.settings\.steps", a whole number/],
    ['1e999 candidates', withSettings({ candidates: Infinity }), /"request\.settings\.candidates"/],
    [
      'settings of a prototype',
      withRequest({ settings: parsed(`{"__proto__":${JSON.stringify(presets.quick)}}`) }),
      /"request\.settings\./,
    ],
    [
      'a tree from a file',
      withRequest({ drafter: { ...unit.request.drafter, policy: 'tree:/etc/passwd.json' } }),
      /a policy without a file/,
    ],
    [
      'a template of 2 MB',
      withRequest({ chatTemplate: { source: 'a'.repeat(2e6), origin: 'x' } }),
      /chat template of usual size/,
    ],
    [
      'ids that are none',
      { ...unit, work: { kind: 'transfer', found: 'x', suffixes: [new Array(1e6).fill(-1)] } },
      /"work\.suffixes\.0\.0"/,
    ],
    [
      'fewer suffixes than prompts',
      { ...unit, work: { kind: 'transfer', found: 'x', suffixes: [] } },
      /a suffix for each prompt/,
    ],
  ])('with %s is refused', (_, value, fault) => {
    expect(refusalOf(() => parseAuditUnit(value))).toMatch(fault);
  });
});

describe('an output', () => {
  const part = '{"key":"a","data":1,"steps":[],"timing":null}';
  it.each<readonly [string, string, RegExp]>([
    ['eight million numbers for parts', list('1', 8_000_000), /has more than 1000000 values/],
    ['100,000 numbers for parts', list('1', 100_000), /cannot be read: 0: .*expected object/],
    ['a step of 1e999', part.replace('[]', '[1e999]'), /expected array/],
    [
      'a step of 1e999 in a list',
      `[${part.replace('[]', '[1,{"a":1e999}]')}]`,
      /0\.steps\.1: expected finite numbers/,
    ],
    ['steps that nest', `[${part.replace('[]', nest(600))}]`, /nests more than 500/],
    ['timings of a list', `[${part.replace('null', '[1]')}]`, /0\.timing/],
  ])('with %s is refused', (_, output, fault) => {
    const value = { schema: 'mistletoe.output/1', worker: 'w', output: deflate(output) };
    expect(refusalOf(() => unpackOutput(value))).toMatch(fault);
  });
});

describe('a notice of a run', () => {
  const notice = (models: string): string =>
    `{"schema":"mistletoe.run/1","command":"audit","version":"1","models":${models},"device":{"kind":"cpu","dtype":"float32","name":""}}`;
  it.each<readonly [string, string, RegExp]>([
    ['2 MB', notice(list('1', 1_000_000)), /has 2000\d+ characters; at most 1048576/],
    ['300,000 models that are none', notice(list('1', 300_000)), /^models\.0: /],
    ['10,000 models', notice(list(JSON.stringify({ name: 'a', sha256 }), 10_000)), /^models: .*1000 items/],
    ['nested lists', notice(nest(100_000)), /nests more than 500/],
    ['no JSON', 'redis', /JSON/],
  ])('with %s is refused', (_, text, fault) => {
    expect(refusalOf(() => readNotice(text))).toMatch(fault);
  });
});

describe('a request to serve', () => {
  const prompt = (value: string): string => `{"prompt":${value}}`;
  it.each<readonly [string, string, number, RegExp]>([
    ['two million token ids', prompt(list('1', 2_000_000)), 413, /has more than 65536 values/],
    ['a million prompts', prompt(list('[1]', 1_000_000)), 413, /more than 65536 values/],
    ['a million messages', `{"messages":${list('{}', 1_000_000)}}`, 413, /more than 65536 values/],
    ['four million open lists', '['.repeat(4_000_000), 400, /not JSON/],
    ['100,000 fields', `{${Array.from({ length: 1e5 }, (_, at) => `"x${at}":1`).join()}}`, 413, /values/],
    [
      '60,000 fields',
      `{"prompt":"a",${Array.from({ length: 6e4 }, (_, at) => `"x${at}":1`).join()}}`,
      400,
      /^The field x0 is unknown/,
    ],
    [
      'a field of a million letters',
      `{"prompt":"a","${'x'.repeat(1e6)}":1}`,
      400,
      /^The field x{64}… is unknown/,
    ],
    ['a prototype', '{"prompt":"a","__proto__":{"n":1e15}}', 400, /__proto__ is unknown/],
    [
      'its prompt 60,000 times',
      `{${'"prompt":"a",'.repeat(60_000)}"prompt":[]}`,
      400,
      /^prompt: expected a text/,
    ],
    ['1e999 for a temperature', '{"prompt":"a","temperature":1e999}', 400, /^temperature: /],
    ['1e308 for max_tokens', '{"prompt":"a","max_tokens":1e308}', 400, /^max_tokens: /],
    ['1e15 for n', '{"prompt":"a","n":1e15}', 400, /answers were asked for/],
    ['a token id of 1e999', prompt('[1,1e999]'), 400, /^prompt: /],
    ['metadata that nests', `{"prompt":"a","metadata":{"a":${nest(400)}}}`, 400, /^metadata: /],
    ['60,000 stops', `{"prompt":"a","stop":${list('"a"', 60_000)}}`, 400, /^stop: /],
    ['null', 'null', 400, /not a JSON object/],
  ])('with %s is refused', async (_, body, status, message) => {
    const { post, asked } = createScriptedApp();
    const response = await post('/v1/completions', body);
    const { error } = (await response.json()) as { readonly error: { readonly message: string } };
    expect(response.status).toBe(status);
    expect(error.message).toMatch(/^[^\n]{1,300}$/);
    expect(error.message).toMatch(message);
    expect(asked).toEqual([]);
  });

  it('may hold as many values as a long context has tokens', async () => {
    const request = (count: number): Request =>
      new Request('http://localhost', {
        ...{ method: 'POST', headers: { 'content-type': 'application/json' } },
        body: list('1', count),
      });
    await expect(readJsonBody(request(100_000), defaultLimits, 131_072)).resolves.toHaveLength(100_001);
    await expect(readJsonBody(request(131_072), defaultLimits, 131_072)).rejects.toThrow(
      /more than 131072 values/,
    );
  });

  it('is parsed in a turn of its own if it is large, so others are answered in between', async () => {
    const { post, app } = createScriptedApp();
    let parsedBodies = 0;
    const large = prompt(JSON.stringify('a '.repeat(50_000))).replace('}', ',"unknown":1}');
    const requests = Array.from({ length: 20 }, async () => {
      const response = await post('/v1/completions', large);
      parsedBodies += 1;
      return response.status;
    });
    let health = 0;
    const seen: number[] = [];
    while (parsedBodies < requests.length) {
      const before = parsedBodies;
      const response = await app.request('/health');
      health += response.status === 200 ? 1 : 0;
      await new Promise((resolve) => void setImmediate(resolve));
      seen.push(parsedBodies - before);
    }
    expect(await Promise.all(requests)).toEqual(requests.map(() => 400));
    expect(Math.max(...seen)).toBeLessThan(4);
    expect(health).toBeGreaterThanOrEqual(requests.length / 4);
  });
});
