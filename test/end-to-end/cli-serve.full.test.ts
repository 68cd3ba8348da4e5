/** `mistletoe serve` as a process of its own, guarded and refused. */
import { once } from 'node:events';
import { describe, expect, it } from 'vitest';
import { transpileForTests } from '../support/transpiled-sources.js';
import { expectServed, question, startProcess } from './serve-process.js';

const sources = transpileForTests('cli-serve');

describe('mistletoe serve', () => {
  it('says what runs where, answers, logs without words, and ends by SIGTERM', async () => {
    await expectServed(sources, 'SIGTERM');
  });

  it('guards requests where it is told to: they change drafters, say so, and answer as without drafts', async () => {
    const started = await startProcess(sources.main, [
      ...['--drafter', 'eagle3', '--drafter', 'eagle', '--drafter', 'sps', '--guarded'],
      ...['--per-request-spec-decode-metrics', 'detailed'],
      ...['--floor', '0.999'], // one failure is evidence enough
    ]);
    const { process: child, url, written } = started;
    expect(written.err).toContain('drafted by eagle3, eagle, sps (guarded)');
    expect(written.err).toContain('Guarded requests of eagle3 cannot go on with eagle:');
    const answer = async (mistletoe: object) => {
      const response = await fetch(`${url}/v1/chat/completions`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({
          ...{ messages: [{ role: 'user', content: question }], max_tokens: 48, temperature: 0, mistletoe },
        }),
      });
      return (await response.json()) as {
        choices: [{ message: { content: string } }];
        metrics: { mistletoe: { ladder?: string[]; switches?: { from: string; reason: string }[] } | null };
      };
    };
    const [guarded, unguarded, plain] = await Promise.all(
      [{}, { guarded: false }, { drafter: 'none' }].map((mistletoe) => answer(mistletoe)),
    );
    const [text] = plain!.choices;
    expect([guarded!.choices[0].message, unguarded!.choices[0].message]).toEqual([
      text.message,
      text.message,
    ]);
    const told = guarded!.metrics.mistletoe!;
    expect(told.ladder).toEqual(['eagle3', 'sps', 'ngram']);
    expect(told.switches!.map(({ from }) => from)).toContain('eagle3');
    expect(unguarded!.metrics.mistletoe).not.toHaveProperty('switches');
    const metrics = await (await fetch(`${url}/metrics`)).text();
    const counted = [...metrics.matchAll(/^mistletoe_drafter_switches_total\{reason="(\S+?)".*\} (\d+)$/gm)];
    expect(counted.reduce((sum, [, , count]) => sum + Number(count), 0)).toBe(told.switches!.length);
    const [, operatorUrl] = /Page: (\S+)\/mistletoe/.exec(written.err)!;
    const state = (await (await fetch(`${operatorUrl}/mistletoe/api/state`)).json()) as {
      actions: { action: string }[];
    };
    expect(state.actions.map(({ action }) => action)).toContain('switch-drafter');
    child.kill('SIGINT');
    await once(child, 'exit');
    expect(written.out).toContain('"switches":[{"from":"eagle3"');
  });

  it('ends where the ladder names a drafter that is not there', async () => {
    await expect(startProcess(sources.main, ['--drafter', 'sps', '--ladder', 'sps,other'])).rejects.toThrow(
      'names "other"',
    );
  });

  it('ends where the model is not there', async () => {
    await expect(startProcess(sources.main, ['--target', '/nowhere/model'])).rejects.toThrow(
      '/nowhere/model',
    );
  });
});
