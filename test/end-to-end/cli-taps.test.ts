/** `--taps` reaches every command that loads a drafter. */
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { createRequest, requestSchema } from '../../src/audit/audit-request.js';
import { makeTemporaryFolder } from '../support/checkpoint/temporary-folder.js';
import { run } from '../../src/cli/program.js';
import { settingsSchema } from '../../src/decode/worker/engine-messages.js';
import { inlinePrompt } from '../../src/text/prompts/prompt-set.js';
import { createFakeTerminal } from '../support/fake-terminal.js';
import { referenceModels } from '../support/model-folders.js';

const temporary = makeTemporaryFolder();
afterAll(temporary.remove);

/** The bundled head with the layers that it taps by default, in a form that does not say what they are. */
function writeUnclearHead(): string {
  const folder = join(temporary.path, 'unclear');
  mkdirSync(folder);
  const bundled = join(referenceModels, 'eagle3');
  copyFileSync(join(bundled, 'pytorch_model.bin'), join(folder, 'pytorch_model.bin'));
  const config = JSON.parse(readFileSync(join(bundled, 'config.json'), 'utf8')) as object;
  const list = { eagle_aux_hidden_state_layer_ids: [2, 4, 5] };
  writeFileSync(join(folder, 'config.json'), JSON.stringify({ ...config, eagle_config: list }));
  return folder;
}

const head = writeUnclearHead();
const unclear = /whether they are inputs or outputs of layers is not known/;

async function call(...argv: string[]): Promise<{ code: number; out: string; err: string }> {
  const terminal = createFakeTerminal();
  const code = await run(argv, terminal);
  return { code, ...terminal.written };
}

it.each(['generate', 'bench', 'audit', 'serve', 'train', 'harden', 'inspect'])(
  '%s has the option',
  async (command) => {
    const { out } = await call(command, '--help-all');
    expect(out).toMatch(/--taps <meaning>/);
    const { code, err } = await call(command, '--taps', 'both');
    expect(code).toBe(2);
    expect(err).toContain("Option '--taps <meaning>'");
  },
);

describe('a head that does not say what its taps are', () => {
  it('is a problem for inspect, until it is told', async () => {
    const unknown = await call('inspect', head);
    expect(unknown.code).toBe(2);
    expect(unknown.out).toMatch(unclear);
    const told = await call('inspect', head, '--taps', 'inputs');
    expect(told.code).toBe(0);
    expect(told.out).toMatch(/^taps +2, 4, 5: inputs of these layers, because --taps says so$/m);
  });

  it('is refused by generate, and drafts like the bundled one where it is told', async () => {
    const generate = async (drafter: string, ...more: string[]) =>
      call(
        ...['generate', '--prompt', 'Hello!', '--drafter', drafter, '--draft', 'chain:3'],
        ...['--max-new-tokens', '12', '--format', 'json', '--cache-dir', join(temporary.path, 'cache')],
        ...more,
      );
    const refused = await generate(head);
    expect(refused.code).toBe(2);
    expect(refused.err).toMatch(unclear);
    expect(refused.err).toContain('--taps outputs');
    const acceptedBy = ({ out }: { readonly out: string }): unknown =>
      (JSON.parse(out) as { acceptedLengths: unknown }).acceptedLengths;
    const told = await generate(head, '--taps', 'inputs');
    expect(acceptedBy(told)).toEqual(acceptedBy(await generate('eagle3')));
  });

  it('is told to audits, which keep it, and to the engine of a server', async () => {
    const cacheFolder = join(temporary.path, 'cache');
    const prompts = [inlinePrompt('Hello!')];
    const request = await createRequest({ drafters: [head], taps: 'inputs', prompts, cacheFolder });
    expect(requestSchema.parse(JSON.parse(JSON.stringify(request))).taps).toBe('inputs');
    const settings = { target: 'model', drafters: { head }, taps: 'outputs' } as const;
    expect(settingsSchema.parse(settings)).toEqual(settings);
  });
});
