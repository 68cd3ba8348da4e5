import { Command } from 'commander';
import { describe, expect, it } from 'vitest';
import { startServer } from '../../../test/support/engine-server.js';
import { createFakeTerminal } from '../../../test/support/fake-terminal.js';
import type { Alarm } from '../../guard/alarm.js';
import { exitCodes } from '../failure.js';
import { addRehearseCommand } from './rehearse-command.js';
import { formatRehearsal } from './rehearse-text.js';

describe('guard rehearse --upstream', () => {
  it('says which switch to use, and that the alarm rang', async () => {
    let [answers, drafts, accepted] = [0, 0, 0];
    const labels = '{engine="0",model_name="m"}';
    const server = await startServer((request, response) => {
      const send = (status: number, body: string): void => void response.writeHead(status).end(body);
      if (request.url === '/version') send(200, '{"version":"0.29.1"}');
      else if (request.url === '/v1/models')
        send(200, '{"object":"list","data":[{"id":"m","object":"model","owned_by":"vllm"}]}');
      else if (request.url === '/metrics')
        send(
          200,
          `vllm:spec_decode_num_drafts_total${labels} ${drafts}\n` +
            `vllm:spec_decode_num_draft_tokens_total${labels} ${4 * drafts}\n` +
            `vllm:spec_decode_num_accepted_tokens_total${labels} ${accepted}\n`,
        );
      else if (request.method === 'POST') {
        answers += 1;
        drafts += 40;
        accepted += answers > 60 ? 4 : 60 + 10 * (answers % 3);
        send(200, '{"usage":{"completion_tokens":44}}');
      } else send(404, '{}');
    });
    const terminal = createFakeTerminal();
    const context = { terminal, exitCode: -1 };
    // As the guard has it: commander hands options that both have to the outer command.
    const guard = new Command('guard').option('-u, --upstream <url>').exitOverride();
    addRehearseCommand(guard, context);
    await guard.parseAsync(['rehearse', '--upstream', server.url, '--requests', '55'], { from: 'user' });
    await server.close();
    const { out } = terminal.written;
    expect(out).toContain('"rejection_sample_method": "synthetic", "synthetic_acceptance_length": 1.1');
    expect(out.indexOf('The alarm rang')).toBeGreaterThan(out.indexOf('Now start it anew'));
    expect(context.exitCode).toBe(exitCodes.success);
  });

  it('refuses an engine that cannot pretend', async () => {
    const server = await startServer((_, response) => void response.writeHead(404).end('{}'));
    const guard = new Command('guard').exitOverride();
    addRehearseCommand(guard, { terminal: createFakeTerminal(), exitCode: -1 });
    const run = guard.parseAsync(['rehearse', '--upstream', server.url], { from: 'user' });
    await expect(run).rejects.toThrow('no switch for pretending');
    await server.close();
  });
});

describe('a rehearsal in words', () => {
  const stage = (spoiledShare: number, meanAcceptedLength: number, tokensPerSecond: number) => ({
    ...{ spoiledShare, meanAcceptedLength, tokensPerSecond, requests: 4, alarms: [] },
    stepMs: { draft: 4.25, verify: 15.5 },
  });
  const alarm = { text: 'Accepted length 1.0 over 30 steps.' } as Alarm;

  it('compares stages with usual and with plain decoding', () => {
    const text = formatRehearsal({
      usual: stage(0, 3, 200),
      plainTokensPerSecond: 100,
      stages: [stage(0.5, 2, 150), { ...stage(1, 1, 50), alarms: [{ alarm, request: 2, tokens: 31 }] }],
      areAnswersKept: true,
    });
    expect(text).toMatch(/50 % spoiled +2\.00 +4\.3 \+ 15\.5 ms +150 +0\.75x +1\.50x +0 of 4/);
    expect(text).toMatch(
      /100 % spoiled +1\.00 +4\.3 \+ 15\.5 ms +50 +0\.25x +0\.50x +1 of 4, after 31 tokens/,
    );
    expect(text).toMatch(/none \(plain\) +1\.00 +10\.0 ms +100/);
    expect(text).toContain('with 100 % spoiled, in request 2, after 31 tokens');
    expect(text).toContain(alarm.text);
  });

  it('says when nothing rang, and when answers changed', () => {
    const text = formatRehearsal({
      ...{ usual: stage(0, 3, 200), plainTokensPerSecond: 100, stages: [stage(1, 1, 50)] },
      areAnswersKept: false,
    });
    expect(text).toContain('The alarm did not ring.');
    expect(text).toContain('Look into this first.');
  });
});
