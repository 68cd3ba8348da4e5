import { afterAll, expect, it } from 'vitest';
import { makeTemporaryFolder } from '../../test/support/checkpoint/temporary-folder.js';
import { tiny } from '../../test/support/tiny-checkpoints.js';
import { drafterVariants } from '../../test/support/tiny-drafters.js';
import { countGpuBytes, passBytes, settleDevice } from './gpu-fit.js';
import { bundledDrafterFolder, bundledTarget } from '../core/package-files.js';
import type { GpuHost } from '../runtime/device-choice.js';
import { chooseDevice } from '../runtime/device-choice.js';

const temporary = makeTemporaryFolder();
afterAll(temporary.remove);

const layer = 4 * 320 * 320 + 3 * 864 * 320;
const table = 4096 * 320;
/** In bfloat16, with keys and values for the 2,048 tokens of its context. */
const target = 2 * (8 * layer + 2 * table) + 4 * 17 * 320 + 2048 * 2 * 2 * 8 * 320;

it('counts a target with the keys and values of its context', async () => {
  expect(await countGpuBytes([bundledTarget], 'bfloat16')).toBe(passBytes + target);
});

it('counts the tensors of heads, and nothing for systems without weights', async () => {
  const folders = [bundledTarget, bundledDrafterFolder('eagle3'), 'ngram'];
  const half = (await countGpuBytes(folders, 'bfloat16')) - passBytes - target;
  const whole = (await countGpuBytes([bundledDrafterFolder('eagle3')], 'float32')) - passBytes;
  expect(whole).toBeGreaterThan(4 * 2.5e6);
  expect(half / whole).toBeCloseTo(0.5, 2);
});

it('counts a target and a drafter in the same checkpoint once', async () => {
  const folder = drafterVariants
    .find(({ name }) => name === "MTP in the target's shards")!
    .write(temporary.path, tiny);
  const [once, twice] = [
    await countGpuBytes([folder], 'float32'),
    await countGpuBytes([folder, `ngram+${folder}`], 'float32'),
  ];
  const { hiddenSize, intermediateSize, headCount, keyValueHeadCount } = tiny;
  const keyValueWidth = (hiddenSize / headCount) * keyValueHeadCount;
  const attention = (2 * hiddenSize + 2 * keyValueWidth) * hiddenSize + hiddenSize + 2 * keyValueWidth;
  const module = 2 * hiddenSize ** 2 + attention + 3 * hiddenSize * intermediateSize + 5 * hiddenSize;
  expect(twice - once).toBe(4 * module);
});

it('leaves it to others to say that a folder cannot be opened', async () => {
  expect(await countGpuBytes(['/no/such/folder'], 'float32')).toBe(passBytes);
});

const hostWith = (freeBytes: number): GpuHost => ({
  defaultDevice: () => 'auto',
  hasDriver: () => true,
  find: () =>
    Promise.resolve({
      devices: [{ ordinal: 0, name: 'Alpha', totalBytes: 80e9, computeCapability: [9, 0] as const }],
    }),
  freeBytes: () => Promise.resolve(freeBytes),
});

it('settles on a GPU with room for exactly what the folders need, and says where it runs', async () => {
  const said: string[] = [];
  const settle = async (freeBytes: number, device = 'auto'): Promise<string> => {
    const host = hostWith(freeBytes);
    const choice = await chooseDevice({ device }, host);
    return (await settleDevice(choice, [bundledTarget], (text) => said.push(text), host)).kind;
  };
  expect(await settle(passBytes + target)).toBe('cuda');
  expect(await settle(passBytes + target - 1)).toBe('cpu');
  expect(await settle(0, 'cpu')).toBe('cpu');
  expect(said).toEqual([
    'Runs on Alpha (cuda:0) in bfloat16.',
    expect.stringMatching(/^Runs on the CPU: Alpha has .* free, and the model needs .* in bfloat16\.$/),
  ]);
});
