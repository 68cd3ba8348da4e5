/** An audit whose device fails in the middle: one error that says so and how to go on, and a run that can go on. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { MistletoeError } from '../../src/core/errors.js';
import { DeviceLostError, OutOfMemoryError, type Runtime } from '../../src/runtime/program.js';
import { createOnnxRuntime } from '../../src/runtime/onnx/onnx-runtime.js';
import { createFailingRuntime } from '../support/failing-runtime.js';
import { briefSettings, TinyAudits } from '../support/tiny-audit.js';
import { shallow } from '../support/tiny-checkpoints.js';

const audits = new TinyAudits(shallow);
const inner = createOnnxRuntime({ threads: 1 });
afterAll(async () => {
  await inner.dispose();
  await audits.dispose();
});

/** From some pass on every one fails, whoever asks. */
function failFrom(pass: number, failure: () => MistletoeError): Runtime {
  let passes = 0;
  return createFailingRuntime(inner, {
    beforeRun() {
      passes += 1;
      if (passes >= pass) throw failure();
    },
  });
}

const files = ['units.jsonl', 'steps.jsonl', 'config.json'];
const readAll = (folder: string): string[] => files.map((name) => readFileSync(join(folder, name), 'utf8'));

it('is resumed to the same result after its device was lost, or had no room', async () => {
  const drafters = [audits.writeDrafter('Medusa, torch file')];
  const plan = audits.plan(drafters, ['abcdefgh'], { settings: { ...briefSettings, maxNewTokens: 12 } });
  const whole = audits.freshFolder();
  let passes = 0;
  const counting = createFailingRuntime(inner, { beforeRun: () => void (passes += 1) });
  expect((await audits.start(plan, whole, { runtime: counting })).status).toBe('complete');
  const expected = readAll(whole);

  const folder = audits.freshFolder();
  const lost = (): MistletoeError =>
    new DeviceLostError('cuLaunchKernel failed: CUDA_ERROR_ILLEGAL_ADDRESS.', 'The GPU cannot be used.');
  const third = Math.round(passes / 3);
  await expect(audits.start(plan, folder, { runtime: failFrom(third, lost) })).rejects.toMatchObject({
    message: 'cuLaunchKernel failed: CUDA_ERROR_ILLEGAL_ADDRESS.',
    hint: `The GPU cannot be used. Finished work is kept. Resume with: mistletoe audit --resume ${folder}`,
  });
  const full = (): MistletoeError => new OutOfMemoryError('The GPU has no room for 8 bytes.', 'Lower it.');
  const refusal = await audits
    .resume(folder, { runtime: failFrom(third, full) })
    .catch((cause: unknown) => cause);
  expect(refusal).toBeInstanceOf(MistletoeError);
  expect((refusal as MistletoeError).hint).toMatch(/--resume .* smaller --window or --suffix-length/);
  expect((await audits.resume(folder, { runtime: failFrom(Infinity, lost) })).status).toBe('complete');
  expect(readAll(folder)).toEqual(expected);
});
