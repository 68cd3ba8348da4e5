/** SIGHUP as an operator sends it: while a stream runs, and with a file that is not valid. */
import { EventEmitter, once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { createFakeTerminal, type Disturbances } from '../../../test/support/fake-terminal.js';
import { startFakeEngine } from '../../../test/support/guard/fake-engine.js';
import { run } from '../program.js';

it('reloads the file at SIGHUP, keeps the old settings if it is not valid, and drops no stream', async () => {
  const [first, second] = [await startFakeEngine(), await startFakeEngine()];
  const folder = mkdtempSync(join(tmpdir(), 'reload-'));
  const file = join(folder, 'guard.yaml');
  const write = (upstream: string): void => {
    writeFileSync(
      file,
      `upstream: ${upstream}\nport: 0\noperator: { port: 0 }\nmetrics: { compareEvery: 0 }\n`,
    );
  };
  const lines = new EventEmitter();
  let send!: Disturbances['interrupt'];
  const terminal = createFakeTerminal({
    onError(text, { interrupt }) {
      send = interrupt;
      lines.emit('line', text);
    },
  });
  const hangUp = async (): Promise<string> => {
    const line = once(lines, 'line') as Promise<[string]>;
    send('SIGHUP');
    return (await line)[0];
  };
  write(first.url);
  const started = once(lines, 'line') as Promise<[string]>;
  const ended = run(['guard', '--config', file], terminal);
  const [, url] = /guard +(\S+)/.exec((await started)[0])!;
  const ask = (body: object): Promise<Response> =>
    fetch(`${url}/v1/chat/completions`, { method: 'POST', body: JSON.stringify(body) });

  first.hold();
  const stream = await ask({ model: 'm', messages: [], stream: true });
  write(second.url);
  expect(await hangUp()).toContain('Settings reloaded');
  expect((await ask({ model: 'm', messages: [] })).status).toBe(200);
  write('not an address');
  expect(await hangUp()).toContain('Settings not reloaded');
  expect((await ask({ model: 'm', messages: [] })).status).toBe(200);
  first.release();
  expect(await stream.text()).toMatch(/data: \[DONE\]\n\n$/);
  expect([first.bodies.length, second.bodies.length]).toEqual([1, 2]);
  send('SIGINT');
  expect(await ended).toBe(0);
  await Promise.all([first.close(), second.close()]);
  rmSync(folder, { recursive: true });
});
