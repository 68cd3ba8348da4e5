import { deflateRawSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { fileLimits } from '../../core/limits.js';
import { jobId, packJob, packOutput, readJob, unpackInput, unpackOutput } from './queue-messages.js';
import { parseQueueUrl } from './queue-connection.js';

const part = { key: 'a/b/clean', data: { result: [1, 2.5, null] }, steps: [{ step: 1 }], timing: null };

describe('messages of a queue', () => {
  it('come back as they were sent', () => {
    const input = { text: 'Grüße', numbers: [0.1, 1e-300] };
    expect(unpackInput(packJob('a', '1.0.0', input))).toEqual(input);
    expect(unpackOutput(packOutput('gpu-1', [part]))).toEqual({ worker: 'gpu-1', parts: [part] });
    const long = { text: 'Grüße '.repeat(1000) };
    const job = packJob('a', '1.0.0', long);
    expect(job.input.length).toBeLessThan(500);
    expect(unpackInput(job)).toEqual(long);
  });

  it('have an id that follows from the input alone', () => {
    expect(jobId({ a: 1 })).toBe(jobId({ a: 1 }));
    expect(jobId({ a: 1 })).not.toBe(jobId({ a: 2 }));
    expect(jobId({ a: 1 })).toMatch(/^unit-[0-9a-f]{40}$/);
  });

  it.each([
    ['nothing', undefined],
    ['text', 'done'],
    ['another schema', { schema: 'mistletoe.output/2', worker: 'w', output: '' }],
    ['more than was expected', { ...packOutput('w', []), path: '/etc/passwd' }],
    ['no base64', { ...packOutput('w', []), output: '%%%' }],
    ['no parts', { ...packOutput('w', []), output: deflateRawSync('{"a":1}').toString('base64') }],
    [
      'a part without a key',
      { ...packOutput('w', []), output: deflateRawSync('[{"data":1}]').toString('base64') },
    ],
  ])('are refused with %s', (_, value) => {
    expect(() => unpackOutput(value)).toThrow();
  });

  it('are refused if they unpack to more than the limit', () => {
    const bomb = deflateRawSync(Buffer.alloc(fileLimits.unitInput + 1, 0x20)).toString('base64');
    expect(bomb.length).toBeLessThan(100_000);
    expect(() => unpackInput({ ...packJob('a', '1', {}), input: bomb })).toThrow(/cannot be unpacked/);
    const long = `[${' '.repeat(fileLimits.unitInput)}]`;
    expect(() => unpackInput({ ...packJob('a', '1', {}), input: long })).toThrow(/characters; at most/);
  });

  it('name no path, command or code', () => {
    const job = packJob('a', '1', {});
    expect(Object.keys(job).sort()).toEqual(['input', 'key', 'schema', 'version']);
    expect(() => readJob({ ...job, command: 'rm' })).toThrow('Unrecognized key: "command"');
  });
});

describe('the address of a queue', () => {
  it.each([
    ['redis://queue:6379', 'redis://queue:6379', 'redis://queue:6379'],
    ['rediss://user:p%40ss@queue/2', 'rediss://user:p%40ss@queue/2', 'rediss://queue/2'],
    ['valkeys://:secret@queue', 'rediss://:secret@queue', 'valkeys://queue'],
  ])('%s is shown without its password', (given, url, shown) => {
    const address = parseQueueUrl(given);
    expect([address.url, address.shown]).toEqual([url, shown]);
    expect(address.hide('WRONGPASS p@ss p%40ss secret')).not.toContain(
      given.includes('@ss') ? 'p@ss' : '####',
    );
  });

  it('hides the password in what others say', () => {
    expect(parseQueueUrl('redis://:p%40ss@queue').hide('tried p@ss and p%40ss')).toBe('tried *** and ***');
  });

  it.each(['queue:6379', 'http://queue', 'redis://', 'secret'])('%s is refused and not repeated', (given) => {
    expect(() => parseQueueUrl(given)).toThrow(/^The address of the queue is not a Redis URL\.$/);
  });
});
