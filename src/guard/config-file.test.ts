import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { describe, expect, it } from 'vitest';
import { MistletoeError } from '../core/errors.js';
import { readConfiguration, writeConfiguration } from './config-file.js';
import { formatDuration, parseDuration } from './guard-config.js';

const read = (text: string): unknown => readConfiguration({ file: { name: 'guard.yaml', text } });
function refusal(text: string): string {
  try {
    read(text);
  } catch (cause) {
    if (cause instanceof MistletoeError) return cause.message;
    throw cause;
  }
  return 'accepted';
}
const upstream = 'upstream: http://127.0.0.1:8000\n';

describe('the configuration', () => {
  it('has defaults for all but the upstream', () => {
    expect(read(upstream)).toMatchObject({
      host: '127.0.0.1',
      tenant: { from: 'all', limit: 1000 },
      mitigation: { action: 'observe' },
      timeouts: { connect: 5000, idle: 300_000 },
      limits: { requestSize: 64e6 },
      records: { retainAge: 30 * 86_400_000 },
    });
    expect(refusal('')).toMatch(/^guard.yaml:1:1: upstream: /);
  });

  it.each([
    ['upstream: [', /^guard.yaml:1:12: /],
    [`${upstream}port: 99999\n`, /^guard.yaml:2:7: port: .*65535/],
    [`${upstream}tenant:\n  frm: key\n`, /^guard.yaml:3:\d+: tenant.frm is not a setting/],
    [
      `${upstream}tenant:\n  from: cookie\n`,
      /^guard.yaml:3:9: tenant.from: expected one of "all"\|"key"\|"header"/,
    ],
    [`${upstream}tenant:\n  from: header\n`, /^guard.yaml:3:3: tenant.header: required with/],
    [`${upstream}timeouts: { idle: 5 }\n`, /^guard.yaml:2:19: timeouts.idle: /],
    [`${upstream}timeouts: { idle: 5 minutes }\n`, /^guard.yaml:2:19: timeouts.idle: expected a time/],
    [`${upstream}limits:\n  readSize: big\n`, /^guard.yaml:3:13: limits.readSize: expected a size/],
    [`${upstream}port: 1\nport: 2\n`, /^guard.yaml:3:1: invalid YAML: Map keys must be unique/],
    [`${upstream}operator:\n  hosts:\n    - a\n    - 7\n`, /^guard.yaml:5:7: operator.hosts.1: /],
    [`${upstream}mitigation:\n  action: switch-drafter\n`, /^guard.yaml:3:11: mitigation.action/],
    [
      `${upstream}mitigation:\n  action: plain-upstream\n`,
      /^guard.yaml:3:11: mitigation.action: plain-upstream needs/,
    ],
    [
      `${upstream}engine: vllm\nmitigation: {action: shorter-drafts}\n`,
      /^guard.yaml:3:22: .* needs engine: llama-cpp/,
    ],
    ['upstream: http://user:pass@host\n', /^guard.yaml:1:11: upstream: expected an address/],
    ['upstream: ftp://host\n', /^guard.yaml:1:11: upstream/],
    ['- a\n', /^guard.yaml:1:1: the file contains no settings/],
    ['a: &x {b: *x}\n', /^guard.yaml:1:11: aliases are not supported/],
    ['? [a]\n: b\n', /^guard.yaml:1:3: expected a name/],
  ])('%j is refused with its place', (text, expected) => {
    expect(refusal(text)).toMatch(expected);
  });

  it('takes flags before the file, and names a flag that is wrong', () => {
    const file = { name: 'guard.yaml', text: `${upstream}port: 1\ntenant: {from: key}\n` };
    const flags = [
      { flag: '--port', path: ['port'], value: 2 },
      { flag: '--records', path: ['records', 'folder'], value: 'r' },
    ];
    expect(readConfiguration({ file, flags })).toMatchObject({
      port: 2,
      tenant: { from: 'key' },
      records: { folder: 'r' },
    });
    const wrong = [{ flag: '--upstream', path: ['upstream'], value: 'nowhere' }];
    expect(() => readConfiguration({ file, flags: wrong })).toThrow(
      /^--upstream: upstream: expected an address/,
    );
    expect(() => readConfiguration({})).toThrow(/^upstream: /);
  });

  it('is shown as a file that says the same', () => {
    const configuration = readConfiguration({
      file: {
        name: 'x',
        text: `${upstream}limits: {readSize: 123456789B}\ntimeouts: {idle: 90s, client: 0}`,
      },
    });
    const text = writeConfiguration(configuration);
    expect(readConfiguration({ file: { name: 'y', text } })).toEqual(configuration);
    expect(text).toContain('idle: 90s');
  });

  it('of the example is good', () => {
    const text = readFileSync(resolve(import.meta.dirname, '../../examples/guard/guard.yaml'), 'utf8');
    expect(readConfiguration({ file: { name: 'guard.yaml', text } }).host).toBe('127.0.0.1');
  });
});

describe('times', () => {
  it('are read with their unit alone', () => {
    expect(['500ms', '5s', '1.5m', '2h', '30d', '0'].map(parseDuration)).toEqual([
      ...[500, 5000, 90_000, 7_200_000, 2_592_000_000, 0],
    ]);
    expect(['5', '-1s', '5 minutes', '', '1w', '9999999d'].map(parseDuration)).toEqual(
      Array.from({ length: 6 }, () => undefined),
    );
    expect([90_000, 60_000, 0, 1500, 86_400_000].map(formatDuration)).toEqual([
      '90s',
      '1m',
      '0',
      '1500ms',
      '1d',
    ]);
  });
});

describe('settings of version 0.2', () => {
  it('work under their old names, with a note about each', () => {
    const text = [
      'upstream: http://127.0.0.1:8000',
      'askForPromptLogprobs: true',
      'alarm: { falseAlarms: 0.02, falseAlarmsPerWeek: 3 }',
      'mitigation: { action: tag, from: tenant }',
    ].join('\n');
    const notices: string[] = [];
    const configuration = readConfiguration({
      file: { name: 'guard.yaml', text },
      onNotice: (message) => notices.push(message),
    });
    expect(configuration.alert).toEqual({ falseAlerts: 0.02, falseAlertsPerWeek: 3 });
    expect(configuration.mitigation.action).toBe('observe');
    expect(notices).toHaveLength(6);
  });
});
